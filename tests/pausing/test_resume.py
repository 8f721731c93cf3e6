"""Going on with an invocation: by its answers, by its id, with a delta, and when there is nothing to do."""

from dataclasses import replace

import pytest

from apps import KEY, app_of, records
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    LoopAgent,
    ParallelAgent,
    Part,
    Plugin,
    RunConfig,
    Runner,
    RunStatus,
    SequentialAgent,
)
from intermission.agents.effects import Steps
from intermission.testing import Gate, calls
from intermission_storage import MemoryEventLog
from pausing import (
    PATIENCE,
    WAIT,
    Story,
    asked,
    asking,
    llm,
    mark,
    model_of,
    reply_to,
    resumable,
    seed,
    waiting,
    words,
)


def look(n: int = 1) -> dict[str, int]:
    """Look."""
    return {"seen": n}


CALL = FunctionCall("c-1", "look", {"n": 3})
CALLED = replace(mark("A"), content=Content.model(calls=[CALL]))


def test_an_invocation_whose_calls_are_not_answered_is_paused_still_and_no_model_is_asked() -> None:
    agent = waiting("A")
    with Story(agent) as story:
        story.say()
        pending, before = story.result.pending, story.position
        assert story.go_on() == []
        assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, pending)
        assert story.position == before
    assert len(model_of(agent).requests) == 1


def test_an_answer_that_was_given_before_is_an_empty_run_and_leaves_no_record() -> None:
    agent = waiting("A", times=2)
    with Story(agent) as story:
        story.say()
        first, second = story.pending
        story.answer(first)
        for given in (first.reply({"ok": True}), first.reply({"another": "answer"})):
            before = story.position
            assert story.answer(given) == []
            assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, (second,))
            assert story.say(reply_to(first)) == []
            assert story.position == before
        story.answer(second)
        before = story.position
        assert story.answer(second, first) == []
        assert (story.result.status, story.position) == (RunStatus.COMPLETED, before)
    assert len(model_of(agent).requests) == 2


def test_an_answer_beside_one_that_was_given_before_is_taken() -> None:
    with Story(waiting("A", times=2)) as story:
        story.say()
        first, second = story.pending
        story.answer(first)
        assert story.answer(first.reply({"late": 1}), second) == ["A says A is done", "A ends"]
        answers = [each for event in story.events for each in event.function_responses]
    assert [(each.id, each.response) for each in answers] == [
        (first.id, {"ok": True}),
        (second.id, {"ok": True}),
    ]


def test_the_first_of_two_answers_to_one_call_counts() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        story.answer(call.reply({"n": 1}), call.reply({"n": 2}))
        answers = [each.response for event in story.events for each in event.function_responses]
    assert answers == [{"n": 1}]


def test_text_after_a_pause_is_a_new_invocation_and_the_paused_one_stays_open() -> None:
    agent = waiting("A")
    with Story(agent) as story:
        story.say()
        paused = story.result.invocation_id
        assert story.say("something else") == ["A says A is done", "A ends"]
        assert story.result.invocation_id != paused
        assert [call.invocation_id for call in story.pending] == [paused]
        assert len(model_of(agent).requests) == 2


def test_what_has_come_to_its_end_says_so_last_and_has_nothing_to_go_on_with() -> None:
    agent = llm("A")
    with Story(agent) as story:
        assert story.say()[-1] == "A ends"
        before = story.position
        assert story.go_on() == []
        assert (story.result.status, story.position) == (RunStatus.COMPLETED, before)
    assert len(model_of(agent).requests) == 1


def test_an_app_that_is_not_resumable_stores_no_checkpoint_of_any_agent() -> None:
    class Own(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            context.agent_state["begun"] = True
            yield context.event(self.name, content=Content.model("own"))

    tree = SequentialAgent(
        "seq",
        sub_agents=[
            ParallelAgent("par", sub_agents=[llm("A")]),
            LoopAgent("loop", sub_agents=[llm("B")], max_iterations=1),
            Own("own"),
        ],
    )
    with Runner(app_of(tree), log=MemoryEventLog()) as runner:
        seen = [words(event) for event in runner.run(**KEY, message="hi")]
        assert seen == ["A@par.A says A is done", "B says B is done", "own says own"]
        assert not any(event.is_checkpoint for event in runner.sessions.events(**KEY))


def test_a_delta_beside_an_answer_is_stored_with_it_in_the_same_invocation() -> None:
    with Story(waiting("A")) as story:
        story.say(state_delta={"before": 1, "gone": 1})
        paused = story.result.invocation_id
        story.answer(*story.pending, state_delta={"key": "value", "gone": None})
        answer = [event for event in story.events if event.author == "user"][-1]
        assert answer.invocation_id == paused
        assert answer.actions.state_delta == {"key": "value", "gone": None}
        assert story.runner.sessions.get(**KEY).state == {"before": 1, "key": "value"}


def test_a_delta_without_a_message_is_held_by_an_event_of_the_user_without_content() -> None:
    log, app = MemoryEventLog(), resumable(llm("A", tools=[look]))
    id = seed(log, app, CALLED, ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        assert story.go_on(id, state_delta={"key": 1}) == ["A hears look", "A says A is done", "A ends"]
        held = [event for event in story.events if event.author == "user"][-1]
        assert (held.content, held.invocation_id) == (None, id)
        assert held.actions.state_delta == {"key": 1}
        assert story.runner.sessions.get(**KEY).state == {"key": 1}


def test_a_delta_for_an_invocation_that_waits_is_kept_and_it_waits_on() -> None:
    agent = waiting("A")
    with Story(agent) as story:
        story.say()
        (call,) = story.pending
        assert story.go_on(state_delta={"key": 1}) == []
        assert (story.result.status, story.pending) == (RunStatus.PAUSED, [call])
        assert story.runner.sessions.get(**KEY).state == {"key": 1}
        assert story.answer(call) == ["A says A is done", "A ends"]
    assert asked(agent) == 2


def test_an_answer_that_was_taken_by_a_run_that_was_interrupted_goes_on_with_that() -> None:
    gate, made = Gate(), list[int]()

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        made.append(n)
        if len(made) == 1:
            gate.wait()
        return {"paid": n}

    pays = FunctionTool(pay, require_confirmation=True)
    first = Story(llm("A", calls(("pay", {"n": 1})), tools=[pays]))
    with first:
        first.say()
        (call,) = first.pending
        run = first.runner.resume(**KEY, answers=[call.approve()]).start()
        gate.arrived()
        first.runner.close(0, runs="release")
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.INTERRUPTED
    with Story(llm("A", tools=[pays]), first.log) as story:
        assert story.pending == []
        assert story.answer(call) == ["A hears pay", "A says A is done", "A ends"]
        assert story.answer(call) == []
    assert made == [1, 1]


def test_of_several_invocations_the_one_is_gone_on_with_whose_call_is_answered() -> None:
    agent = llm("A", calls(("wait", {})), "second", calls(("wait", {})), "of the first", tools=[WAIT])
    with Story(agent) as story:
        story.say("one")
        first = story.result
        story.say("two")
        story.say("three")
        assert story.say(reply_to(first.pending[0])) == ["A says of the first", "A ends"]
        assert story.result.invocation_id == first.invocation_id
        assert {event.invocation_id for event in story.events[-3:]} == {first.invocation_id}
        assert len(story.pending) == 1
    assert story.result.status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    "ended", [RunStatus.INTERRUPTED, RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.EXPIRED]
)
def test_a_call_without_a_response_is_made_before_the_model_is_asked(ended: RunStatus) -> None:
    agent = llm("A", tools=[look])
    log, app = MemoryEventLog(), resumable(agent)
    id = seed(log, app, CALLED, ended=ended)
    with Story(app, log) as story:
        assert story.go_on(id) == ["A hears look", "A says A is done", "A ends"]
    (request,) = model_of(agent).requests
    assert [each.response for each in request.contents[-1].function_responses] == [{"seen": 3}]


def test_a_run_without_an_end_is_gone_on_with_by_its_id() -> None:
    log, app = (
        MemoryEventLog(),
        resumable(SequentialAgent("seq", sub_agents=[llm("A", tools=[look]), llm("B")])),
    )
    state = mark("seq", agent_state={"current_sub_agent": "A"})
    id = seed(log, app, state, CALLED)
    with Story(app, log) as story:
        assert story.go_on(id) == [
            *(
                "A hears look",
                "A says A is done",
                "A ends",
                "seq at B",
                "B says B is done",
                "B ends",
                "seq ends",
            )
        ]


def test_a_long_running_call_that_did_not_begin_is_begun_and_waits() -> None:
    log, app = MemoryEventLog(), resumable(llm("A", tools=[WAIT]))
    called = replace(
        mark("A"),
        content=Content.model(calls=[FunctionCall("c-1", "wait", {})]),
        long_running_tool_ids=("c-1",),
    )
    id = seed(log, app, called, ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        assert story.pending == []
        assert story.go_on(id) == []
        assert story.result.status is RunStatus.PAUSED
        assert [call.id for call in story.pending] == ["c-1"]
        assert story.answer(*story.pending) == ["A says A is done", "A ends"]


def test_text_that_was_not_followed_by_the_end_is_not_said_again() -> None:
    agent = llm("A")
    log, app = MemoryEventLog(), resumable(agent)
    id = seed(log, app, mark("A", said="all done"), ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        assert story.go_on(id) == ["A ends"]
    assert (len(model_of(agent).requests), story.result.status) == (0, RunStatus.COMPLETED)


@pytest.mark.parametrize("end", [True, False])
def test_a_run_whose_root_had_ended_asks_no_model_again_and_one_without_that_mark_neither(end: bool) -> None:
    agent = llm("A")
    log, app = MemoryEventLog(), resumable(agent)
    marks = [mark("A", end_of_agent=True)] if end else []
    id = seed(log, app, mark("A", said="all done"), *marks)
    with Story(app, log) as story:
        assert story.go_on(id) == ([] if end else ["A ends"])
        assert story.result.status is RunStatus.COMPLETED
        assert records(story.log)[-1].data["status"] == "completed"
    assert model_of(agent).requests == []


def test_text_for_an_invocation_that_has_no_message_becomes_its_message() -> None:
    log, app = MemoryEventLog(), resumable(llm("A"))
    id = seed(log, app, message=False)
    with Story(app, log) as story:
        assert story.say("late", invocation_id=id, state_delta={"key": 1}) == ["A says A is done", "A ends"]
        assert [(event.text, event.invocation_id) for event in story.events if event.author == "user"] == [
            ("late", id)
        ]
        assert story.runner.sessions.get(**KEY).state == {"key": 1}


def test_an_answer_among_text_is_gone_on_with_and_the_text_is_heard() -> None:
    agent = waiting("A")
    with Story(agent) as story:
        story.say()
        paused = story.result.invocation_id
        parts = (Part(text="here you are"), *reply_to(story.pending[0]).parts)
        assert story.say(Content("user", parts)) == ["A says A is done", "A ends"]
        assert story.result.invocation_id == paused
    told = model_of(agent).requests[-1].contents
    assert told[2].function_responses
    assert told[3].text == "here you are"


def test_before_run_hooks_see_the_message_of_the_invocation_though_there_is_no_new_one() -> None:
    seen = list[list[str]]()

    class Looking(Plugin):
        def before_run_callback(self, *, invocation_context: AgentContext) -> None:
            """See `Plugin`."""
            seen.append([event.text for event in invocation_context.events if event.author == "user"])

    log, app = MemoryEventLog(), resumable(llm("A", tools=[look]), Looking("looking"))
    id = seed(log, app, CALLED, ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        story.go_on(id)
    assert seen == [["hi"]]


def test_the_model_calls_before_a_pause_count_against_the_limit() -> None:
    agent = llm("A", calls(("look", {})), calls(("wait", {})), tools=[look, WAIT])
    with Story(agent) as story:
        story.say(config=RunConfig(max_llm_calls=2))
        with pytest.raises(Exception, match="2"):
            story.answer(*story.pending, config=RunConfig(max_llm_calls=2))
        assert story.result.status is RunStatus.FAILED
        assert story.go_on(config=RunConfig(max_llm_calls=3)) == ["A says A is done", "A ends"]


def test_an_answer_is_stored_under_the_name_of_what_it_answers_whatever_name_it_was_given() -> None:
    agent = asking("A")
    with Story(agent) as story:
        story.say()
        (call,) = story.pending
        part = Part(function_response=FunctionResponse(call.id, "other", {"confirmed": True}))
        assert story.say(Content("user", (part,))) == ["A hears ask", "A says A is done", "A ends"]
        stored = [each.name for event in story.events for each in event.function_responses]
    assert stored == ["adk_request_confirmation", "ask"]
