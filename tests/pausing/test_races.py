"""Answers that meet each other, a run under way, a cancel, or the end of the runner."""

from functools import partial

from apps import KEY, records
from intermission import (
    FunctionTool,
    ParallelAgent,
    Run,
    RunResult,
    RunStatus,
    SequentialAgent,
    SessionClosedError,
    UnknownCallError,
)
from intermission.testing import Gate, calls
from intermission_storage import EventLog, MemoryEventLog
from pausing import PATIENCE, WAIT, Story, asked, asking, llm, shown, waiting
from races import at_once
from scale import rounds

ROUNDS = rounds(15, 300)


class Paying:
    """An app whose tool needs leave, and how often that was called."""

    def __init__(self, log: EventLog | None = None, begun: bool = False) -> None:
        self.made = list[int]()
        replies = [] if begun else [calls(("pay", {"n": 1}))]
        self.agent = llm("A", *replies, tools=[FunctionTool(self.pay, require_confirmation=True)])
        self.story = Story(self.agent, log)

    def pay(self, n: int) -> dict[str, int]:
        """Pay."""
        self.made.append(n)
        return {"paid": n}


def test_of_equal_answers_at_the_same_time_one_is_taken_and_the_others_are_empty_runs() -> None:
    for _ in range(ROUNDS):
        paying = Paying()
        with paying.story as story:
            story.say()
            (call,) = story.pending
            runs = [story.runner.resume(**KEY, answers=[call.approve()]) for _ in range(4)]
            at_once(*[partial(come_to, run) for run in runs])
            assert [run.result(PATIENCE).last_seq for run in runs].count(None) == 3
            assert {run.result(PATIENCE).status for run in runs} == {RunStatus.COMPLETED}
            kinds = [str(record.kind) for record in records(story.log)]
            assert (kinds.count("answer"), kinds.count("run_started")) == (1, 2)
        assert paying.made == [1]


def test_of_an_approval_and_a_rejection_at_the_same_time_the_first_counts_alone() -> None:
    for _ in range(ROUNDS):
        paying = Paying()
        with paying.story as story:
            story.say()
            (call,) = story.pending
            yes = story.runner.resume(**KEY, answers=[call.approve()])
            no = story.runner.resume(**KEY, answers=[call.reject()])
            at_once(partial(come_to, yes), partial(come_to, no))
            (taken,) = [run for run in (yes, no) if run.result(PATIENCE).last_seq is not None]
        assert paying.made == ([1] if taken is yes else [])


def test_answers_to_the_calls_of_one_turn_from_many_threads_ask_the_model_once() -> None:
    for _ in range(ROUNDS):
        agent = waiting("A", times=4)
        with Story(agent) as story:
            story.say()
            runs = [story.runner.resume(**KEY, answers=[call.reply({"ok": 1})]) for call in story.pending]
            at_once(*[partial(come_to, run) for run in runs])
            ends = sorted(run.result(PATIENCE).status for run in runs)
            assert ends == [RunStatus.COMPLETED, *[RunStatus.PAUSED] * 3]
            assert story.pending == []
        assert asked(agent) == 2


def test_an_answer_while_another_branch_is_at_work_waits_for_the_pause_and_is_then_taken() -> None:
    gate = Gate()

    def work() -> str:
        """Work."""
        gate.wait()
        return "worked"

    worker = llm("b", calls(("work", {})), tools=[work])
    tree = SequentialAgent(
        "seq", sub_agents=[ParallelAgent("par", sub_agents=[asking("a"), worker]), llm("c")]
    )
    with Story(tree) as story:
        first = story.runner.run(**KEY, message="hi")
        events = iter(first)
        while not next(events).long_running_tool_ids:
            pass
        gate.arrived()
        (call,) = story.pending
        second = story.runner.resume(**KEY, answers=[call.approve()]).start()
        assert second.state == "queued"
        gate.open()
        list(events)
        assert first.result(PATIENCE).status is RunStatus.PAUSED
        assert shown(second)[-1] == "seq ends"
        assert second.result(PATIENCE).invocation_id == first.invocation_id


def test_an_answer_out_of_the_event_that_asks_is_taken_when_the_pause_is_there() -> None:
    with Story(waiting("a")) as story:
        answered = list[Run]()
        run = story.runner.run(**KEY, message="hi")
        for event in run:
            for id in event.long_running_tool_ids:
                answered.append(story.runner.resume(**KEY, answers={id: {"ok": True}}).start())
        assert run.result(PATIENCE).status is RunStatus.PAUSED
        assert [shown(one) for one in answered] == [["a says a is done", "a ends"]]
        assert story.pending == []


def come_to(run: Run) -> RunResult | Exception:
    """What a run has come to: its result, or why it was refused."""
    try:
        return run.result(PATIENCE)
    except (UnknownCallError, SessionClosedError) as error:
        return error


def test_an_answer_and_a_cancel_of_the_pause_leave_one_of_two_ends_and_nothing_open() -> None:
    for _ in range(ROUNDS):
        paying = Paying()
        with paying.story as story:
            story.say()
            run = story.runner.resume(**KEY, answers=[story.pending[0].approve()])
            at_once(partial(come_to, run), partial(story.runner.cancel, **KEY, reason="no"))
            ended, result = records(story.log)[-1].data["status"], come_to(run)
            if isinstance(result, Exception):
                assert (ended, paying.made) == ("cancelled", [])
            else:
                assert result.status in {RunStatus.COMPLETED, RunStatus.CANCELLED}
            assert story.pending == []
            assert story.runner.run(**KEY, message="next").answer(PATIENCE) == "A is done"
        assert len(paying.made) <= 1


def test_an_answer_that_meets_the_end_of_its_runner_is_taken_or_refused_and_never_lost() -> None:
    for _ in range(ROUNDS):
        paying = Paying()
        paying.story.say()
        (call,) = paying.story.pending
        run = paying.story.runner.resume(**KEY, answers=[call.approve()])
        at_once(partial(come_to, run), partial(paying.story.runner.close, runs="release"))
        result = come_to(run)
        again = Paying(paying.story.log, begun=True)
        with again.story as later:
            if isinstance(result, Exception):
                assert later.pending == [call]
                later.answer(call)
            elif result.status is not RunStatus.COMPLETED:
                later.go_on(call.invocation_id)
            assert later.pending == []
            assert records(later.log)[-1].data["status"] == "completed"
            assert [str(record.kind) for record in records(later.log)].count("answer") == 1
        assert 1 <= len(paying.made + again.made) <= 2


def test_a_session_that_is_deleted_takes_its_pauses_along() -> None:
    with Story(waiting("a")) as story:
        story.say()
        (call,) = story.pending
        story.runner.sessions.delete(**KEY)
        assert story.pending == []
        story.say("anew")
        late = story.runner.resume(**KEY, answers=[call.reply({"ok": 1})])
        story.refused(UnknownCallError, late)


def test_many_sessions_pause_and_are_answered_at_the_same_time() -> None:
    count = 20
    log = MemoryEventLog()
    agent = llm("A", *[calls(("wait", {}))] * count, tools=[WAIT])
    with Story(agent, log) as story:
        # All pause before any goes on, or one would take the calls of another's first turn.
        at_once(*[lambda n=n: paused(story, n) for n in range(count)])
        at_once(*[lambda n=n: answered(story, n) for n in range(count)])


def paused(story: Story, number: int) -> None:
    """Have a session's run pause."""
    run = story.runner.run(user_id="u", session_id=f"s{number}", message="hi")
    assert run.result(PATIENCE).status is RunStatus.PAUSED


def answered(story: Story, number: int) -> None:
    """Answer the call of a session."""
    session = story.runner.session(user_id="u", session_id=f"s{number}")
    (call,) = session.pending()
    assert session.resume(answers=[call.reply({"n": number})]).answer(PATIENCE) == "A is done"
    assert session.pending() == []
