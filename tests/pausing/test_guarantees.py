"""What `docs/pausing.md` promises, each promise by itself."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from apps import APP, KEY, records
from intermission import (
    AgentContext,
    AgentTreeChangedError,
    AmbiguousResumeError,
    Answer,
    App,
    BaseAgent,
    Content,
    Event,
    FunctionResponse,
    FunctionTool,
    IntermissionError,
    InvalidAnswerError,
    LlmAgent,
    LlmCallsLimitExceededError,
    LongRunningFunctionTool,
    LoopAgent,
    MissingCallIdError,
    NothingToResumeError,
    NotResumableError,
    ParallelAgent,
    Part,
    PendingCall,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunResult,
    SequentialAgent,
    ToolContext,
    UnknownCallError,
)
from intermission.agents import Call, Emit, SaveState
from intermission.agents.effects import Steps
from intermission.pending import CONFIRMATION
from intermission.testing import ScriptedModel, calls, error
from intermission_storage import EventLog, LmdbEventLog, MemoryEventLog

RESUMABLE = ResumabilityConfig(is_resumable=True)
PAY = calls(("pay", {"amount": 3}))


class Shop:
    """An app with a tool that asks for leave, one whose result comes later, and a plain one."""

    def __init__(self, *replies: Any, default: Any = "done") -> None:
        self.paid: list[tuple[int, Any]] = []
        self.model = ScriptedModel(*replies, default=default)
        self.log: EventLog = MemoryEventLog()

    def pay(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Pay."""
        said = tool_context.confirmation
        self.paid.append((amount, None if said is None else said.payload))
        return {"paid": amount}

    def measure(self, number: int = 1) -> None:
        """Measure, which takes days."""

    def tools(self) -> list[FunctionTool]:
        """Its tools."""
        return [FunctionTool(self.pay, require_confirmation=True), LongRunningFunctionTool(self.measure)]

    def agent(self, name: str = "clerk", **fields: Any) -> LlmAgent:
        """The agent that has them."""
        return LlmAgent(name, self.model, tools=self.tools(), **fields)

    def runner(self, root: BaseAgent | None = None) -> Runner:
        """A runner on its log; of no other is anything left."""
        return Runner(App(APP, root or self.agent(), resumability_config=RESUMABLE), log=self.log)


def paused(runner: Runner, message: str = "Pay!") -> tuple[RunResult, list[PendingCall]]:
    result = runner.run(**KEY, message=message).result()
    assert result.status == "paused", result
    return result, list(result.pending)


def test_a_question_is_stored_before_it_is_shown_and_may_be_answered_from_inside_its_handler() -> None:
    shop, runs = Shop(PAY), list[Any]()
    with shop.runner() as runner:

        def handle(event: Event) -> None:
            if event.long_running_tool_ids:
                assert event.seq in [one.seq for one in records(shop.log) if one.kind == "event"]
                answers = [Answer(event.long_running_tool_ids[0], {"confirmed": True})]
                runs.append(runner.resume(**KEY, answers=answers).start())

        run = runner.run(**KEY, message="Pay!")
        over = threading.Event()
        run.subscribe(handle, on_finally=lambda result: over.set())
        assert run.result().status == "paused"
        assert over.wait(30)
        assert runs[0].result().status == "completed"
    assert shop.paid == [(3, None)]


def test_a_paused_run_is_over_and_the_session_takes_other_messages_meanwhile() -> None:
    shop = Shop(PAY, "It is sunny.", "Paid.")
    with shop.runner() as runner:
        _, waiting = paused(runner)
        assert runner.active() == []
        assert runner.run(**KEY, message="And the weather?").answer() == "It is sunny."
        assert runner.resume(**KEY, answers=[waiting[0].approve()]).answer() == "Paid."


def test_pending_lists_after_a_restart_what_a_screen_needs_to_ask(tmp_path: Any) -> None:
    shop = Shop(PAY)
    with LmdbEventLog(tmp_path / "log") as log:
        shop.log = log
        with shop.runner() as runner:
            result, before = paused(runner)
    with LmdbEventLog(tmp_path / "log") as log:
        shop.log = log
        with shop.runner() as runner:
            assert runner.pending(**KEY) == before
            (call,) = before
    assert (call.tool, call.arguments, call.kind, call.agent) == (
        "pay",
        {"amount": 3},
        "confirmation",
        "clerk",
    )
    assert call.invocation_id == result.invocation_id
    assert call.hint == "May the tool pay be called with these arguments?"
    assert call.id != call.function_call_id


def test_the_model_is_asked_once_when_every_call_of_the_turn_is_answered_in_whatever_order() -> None:
    shop = Shop(calls(("measure", {"number": 1}), ("pay", {"amount": 3}), ("measure", {"number": 2})))
    with shop.runner() as runner:
        _, (one, two, leave) = paused(runner)
        for answer, left in ((two.reply({"cm": 2}), [one, leave]), (leave.approve({"from": 7}), [one])):
            result = runner.resume(**KEY, answers=[answer]).result()
            assert result.status == "paused"
            for pending in (result.pending, runner.pending(**KEY)):
                assert {call.id for call in pending} == {call.id for call in left}
        assert len(shop.model.requests) == 1
        assert runner.resume(**KEY, answers={one.id: {"cm": 1}}).answer() == "done"
    assert len(shop.model.requests) == 2
    told = shop.model.requests[1].contents[-1].function_responses
    assert [answer.response for answer in told] == [{"cm": 1}, {"paid": 3}, {"cm": 2}]
    assert shop.paid == [(3, {"from": 7})]


def test_a_call_that_is_approved_is_made_with_the_arguments_shown_and_not_asked_for_again() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        run = runner.resume(**KEY, answers=[call.approve(answered_by="eve")])
        first = next(iter(run))
        run.result()
    (response,) = first.function_responses
    assert (response.id, response.response) == (call.function_call_id, {"paid": 3})
    assert len(shop.model.requests) == 2
    (kept,) = [one for one in records(shop.log) if one.kind == "answer"]
    assert (kept.data["callId"], kept.data["answeredBy"]) == (call.id, "eve")


def test_a_call_that_is_rejected_is_not_made_and_the_model_is_told_why() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.reject("too much")]).answer() == "done"
    (told,) = shop.model.requests[1].contents[-1].function_responses
    assert told.response["status"] == "rejected"
    assert "too much" in told.response["message"]
    assert shop.paid == []


def test_an_answer_is_used_once_however_often_and_from_wherever_it_comes() -> None:
    shop, statuses = Shop(PAY), list[str]()
    with shop.runner() as runner:
        _, (call,) = paused(runner)

        def give() -> None:
            result = runner.resume(**KEY, answers=[call.approve()]).result()
            statuses.append(result.status)

        threads = [threading.Thread(target=give) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        before = records(shop.log)
        give()
    with shop.runner() as runner:
        give_again = runner.resume(**KEY, answers=[call.approve()])
        assert list(give_again) == []
        assert give_again.result().status == "completed"
    assert records(shop.log) == before
    assert statuses == ["completed"] * 3
    assert shop.paid == [(3, None)]


def test_a_runner_that_knows_the_session_sees_what_another_one_has_done_since() -> None:
    shop = Shop("hello", PAY)
    with shop.runner() as one, shop.runner() as other:
        one.run(**KEY, message="hi").answer()
        _, (call,) = paused(other)
        assert one.resume(**KEY, answers=[call.approve()]).answer() == "done"
        before = records(shop.log)
        assert other.resume(**KEY, answers=[call.approve()]).result().status == "completed"
    assert records(shop.log) == before
    assert shop.paid == [(3, None)]


def test_a_tool_may_ask_from_inside_and_is_called_again_with_what_was_said() -> None:
    seen = list[Any]()

    def pay(amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Pay."""
        said = tool_context.confirmation
        seen.append(said and (said.confirmed, said.payload))
        if said is None:
            tool_context.request_confirmation("From which account?", {"accounts": [1, 2]})
            return {}
        return {"from": said.payload} if said.confirmed else {"refused": said.hint}

    agent = LlmAgent("clerk", ScriptedModel(PAY, "done", PAY, "done"), tools=[pay])
    app = App(APP, agent, resumability_config=RESUMABLE)
    with Runner(app, log=MemoryEventLog()) as runner:
        _, (call,) = paused(runner)
        assert (call.hint, call.payload) == ("From which account?", {"accounts": [1, 2]})
        assert runner.resume(**KEY, answers=[call.approve(2)]).answer() == "done"
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.reject("never")]).answer() == "done"
    assert seen == [None, (True, 2), None, (False, None)]


@pytest.mark.parametrize(("amount", "status"), [(3, "completed"), (30, "paused")])
def test_a_function_of_the_arguments_says_which_calls_need_leave(amount: int, status: str) -> None:
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    tool = FunctionTool(pay, require_confirmation=lambda amount: amount > 20)
    agent = LlmAgent("clerk", ScriptedModel(calls(("pay", {"amount": amount})), default="done"), tools=[tool])
    with Runner(App(APP, agent, resumability_config=RESUMABLE), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="Pay!").result().status == status


def test_a_long_running_tool_that_returns_something_has_answered_and_pauses_nothing() -> None:
    def measure(number: int) -> dict[str, str] | None:
        """Measure."""
        return {"error": "give a number above 0"} if number < 1 else None

    model = ScriptedModel(
        calls(("measure", {"number": 0})), calls(("measure", {"number": 1})), default="done"
    )
    agent = LlmAgent("clerk", model, tools=[LongRunningFunctionTool(measure)])
    with Runner(App(APP, agent, resumability_config=RESUMABLE), log=MemoryEventLog()) as runner:
        _, (call,) = paused(runner)
        assert call.arguments == {"number": 1}
    assert len(model.requests) == 2


def respond(call: PendingCall, said: dict[str, Any]) -> Part:
    """The part of a message that answers a call, as ADK's clients write it."""
    name = CONFIRMATION if call.kind == "confirmation" else call.tool
    return Part(function_response=FunctionResponse(call.id, name, said))


def test_a_message_with_function_responses_answers_and_a_text_beside_them_is_stored_behind_them() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        result, (call,) = paused(runner)
        message = Content("user", (Part(text="But hurry!"), respond(call, {"confirmed": True})))
        run = runner.run(**KEY, message=message)
        assert run.answer() == "done"
        assert run.invocation_id == result.invocation_id
        said = [event for event in runner.sessions.events(**KEY) if event.author == "user"][-1]
    assert said.function_responses
    assert said.text == "But hurry!"
    assert said.content is not None
    assert said.content.parts[-1].text == "But hurry!"


STATES = ["paused", "answered in part", "completed", "stopped", "cancelled", "failed", "none"]


def in_state(runner: Runner, state: str) -> tuple[str, list[PendingCall]]:
    """Bring an invocation into a state; return its id, and the two calls that it has asked about."""
    if state == "none":
        return "e-none", []
    result, waiting = paused(runner)
    invocation = result.invocation_id or ""
    if state == "answered in part":
        runner.resume(**KEY, answers=[waiting[0].reply({"cm": 1})]).result()
    elif state == "cancelled":
        runner.cancel(**KEY, invocation_id=invocation)
    elif state != "paused":
        run = runner.resume(**KEY, answers=[waiting[0].reply({"cm": 1}), waiting[1].approve()])
        if state == "stopped":
            run.stop("enough")
        assert run.result().status == state
    return invocation, waiting


# What is asked → what comes of it in each of the states. A status alone is that of a run of which nothing is
# stored; with a plus sign something is.
TABLE: dict[str, Sequence[Any]] = {
    "the first answer": (
        *("paused+", "paused", "completed", "completed", UnknownCallError, "completed", UnknownCallError),
    ),
    "both answers": (
        *(
            "completed+",
            "completed+",
            "completed",
            "completed",
            UnknownCallError,
            "completed",
            UnknownCallError,
        ),
    ),
    "the id alone": (
        *("paused", "paused", "completed", "completed", "paused+", "completed+", NothingToResumeError),
    ),
    "the id and a text": (
        *(AmbiguousResumeError, AmbiguousResumeError, AmbiguousResumeError, AmbiguousResumeError),
        *(AmbiguousResumeError, AmbiguousResumeError, NothingToResumeError),
    ),
}


@pytest.mark.parametrize("asked", TABLE)
@pytest.mark.parametrize("state", STATES)
def test_what_comes_of_each_request_in_each_state(state: str, asked: str) -> None:
    expected = TABLE[asked][STATES.index(state)]
    fails = [error("validation", "no")] if state == "failed" else []
    shop = Shop(calls(("measure", {}), ("pay", {"amount": 3})), *fails)
    with shop.runner() as runner:
        invocation, waiting = in_state(runner, state)
        if not waiting:
            runner.run(**KEY, message="Hello").result()  # there is a session
            answers = [Answer("call-none", {"cm": 1})]
        else:
            answers = [waiting[0].reply({"cm": 1}), waiting[1].approve()]
        before = records(shop.log)
        if asked == "the id alone":
            run = runner.resume(**KEY, invocation_id=invocation)
        elif asked == "the id and a text":
            run = runner.run(**KEY, message="Well?", invocation_id=invocation)
        else:
            run = runner.resume(**KEY, answers=answers[: 1 if asked == "the first answer" else 2])
        if isinstance(expected, str):
            assert run.result().status == expected.removesuffix("+")
            assert (records(shop.log) != before) == expected.endswith("+")
        else:
            with pytest.raises(expected):
                run.start()
            assert records(shop.log) == before
        assert runner.run(**KEY, message="Are you there?").result().status == "completed"


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (Answer("", {"confirmed": True}), MissingCallIdError),
        (Answer("call-1", {"confirmed": True}), UnknownCallError),
        (None, InvalidAnswerError),
    ],
)
def test_an_answer_that_cannot_be_taken_is_a_typed_error_and_changes_nothing(
    answer: Answer | None, refusal: type[IntermissionError]
) -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, waiting = paused(runner)
        before = records(shop.log)
        with pytest.raises(refusal):
            runner.resume(**KEY, answers=[answer or Answer(waiting[0].id, {"yes": 1})]).start()
        assert records(shop.log) == before
        assert runner.pending(**KEY) == waiting


def test_answers_to_two_runs_at_once_are_refused_and_each_by_itself_is_taken() -> None:
    shop = Shop(PAY, PAY)
    with shop.runner() as runner:
        answers = [paused(runner)[1][0].approve() for _ in range(2)]
        with pytest.raises(AmbiguousResumeError, match="2 invocations"):
            runner.resume(**KEY, answers=answers).start()
        for answer in answers:
            assert runner.resume(**KEY, answers=[answer]).answer() == "done"


def test_an_app_that_is_not_resumable_says_so_at_the_call_and_one_in_which_runs_pause_is() -> None:
    with Runner(App(APP, Shop().agent()), log=MemoryEventLog()) as runner:
        with pytest.raises(NotResumableError):
            runner.resume(**KEY, answers=[Answer("call-1", {})])
        with pytest.raises(NotResumableError):
            runner.run(**KEY, message="hi", invocation_id="e-1")


def test_a_sequence_goes_on_where_it_was_and_what_was_done_is_not_done_again() -> None:
    shop, before, after = Shop(PAY), ScriptedModel(default="ready"), ScriptedModel(default="over")
    with shop.runner(_sequence(shop, before, after)) as runner:
        _, (call,) = paused(runner)
    with shop.runner(_sequence(shop, before, after)) as runner:
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "over"
    assert [len(model.requests) for model in (before, shop.model, after)] == [1, 2, 1]


def _sequence(shop: Shop, before: ScriptedModel, after: ScriptedModel) -> BaseAgent:
    agents = [LlmAgent("before", before), shop.agent(), LlmAgent("after", after)]
    return SequentialAgent("steps", sub_agents=agents)


def test_of_parallel_branches_only_those_that_wait_go_on() -> None:
    shop, other = Shop(PAY), ScriptedModel(default="mine is done")
    with shop.runner(ParallelAgent("both", sub_agents=[shop.agent(), LlmAgent("other", other)])) as runner:
        _, (call,) = paused(runner)
        assert call.branch == "both.clerk"
    with shop.runner(ParallelAgent("both", sub_agents=[shop.agent(), LlmAgent("other", other)])) as runner:
        assert runner.resume(**KEY, answers=[call.approve()]).result().status == "completed"
    assert [len(model.requests) for model in (shop.model, other)] == [2, 1]


def test_a_loop_goes_on_in_its_round() -> None:
    shop = Shop("first round", PAY, "second round", "never")
    with shop.runner(LoopAgent("loop", max_iterations=2, sub_agents=[shop.agent()])) as runner:
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "second round"
    assert len(shop.model.requests) == 3


class Submits(MemoryEventLog):
    """Keeps the events of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Event]] = []

    def submit(self, stream: str, records: Any, *args: Any, **options: Any) -> None:
        """See `EventLog.submit`."""
        events = [Event.from_dict(one.data) for one in records if one.kind == "event"]
        self.batches.append(events)
        super().submit(stream, records, *args, **options)


def test_a_checkpoint_is_stored_in_the_commit_of_the_event_that_it_belongs_to() -> None:
    log, model = Submits(), ScriptedModel(default="said")
    agents = [LlmAgent("one", model), LlmAgent("two", model)]
    app = App(APP, SequentialAgent("steps", sub_agents=agents), resumability_config=RESUMABLE)
    with Runner(app, log=log) as runner:
        runner.run(**KEY, message="hi").answer()

    def word(event: Event) -> str:
        state, end = event.actions.agent_state, event.actions.end_of_agent
        return f"{event.author} {'ends' if end else event.text if state is None else dict(state)}"

    assert [[word(event) for event in batch] for batch in log.batches] == [
        ["user hi"],
        ["steps {'current_sub_agent': 'one'}"],
        ["one said", "one ends"],
        ["steps {'current_sub_agent': 'two'}"],
        ["two said", "two ends"],
        ["steps ends"],
    ]


def test_an_agent_of_ones_own_goes_on_with_what_it_has_kept() -> None:
    done, fails = list[int](), [True]

    def step(number: int) -> None:
        if number == 2 and fails:
            fails.clear()
            raise ConnectionError("the line is cut")
        done.append(number)

    class Steady(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            for number in range(context.agent_state.get("done", 0), 4):
                yield Call(step, number)
                yield SaveState({"done": number + 1})
            yield Emit(context.event(self.name, content=Content.model("all")))

    shop = Shop()
    with shop.runner(Steady("steady")) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result().status == "failed"
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert again.answer() == "all"
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("an agent renamed", "has no sub-agent 'clerk'"),
        ("a tool removed", "has no tool 'pay'"),
        ("another order", "stand in another order"),
        ("an agent and a tool added", None),
    ],
)
def test_a_change_of_the_app_that_a_pause_needs_is_refused_by_name_and_an_addition_is_fine(
    change: str, missing: str | None
) -> None:
    shop = Shop(PAY)
    first = LlmAgent("first", ScriptedModel(default="ready"))
    with shop.runner(SequentialAgent("steps", sub_agents=[first, shop.agent()])) as runner:
        _, (call,) = paused(runner)
    first = LlmAgent("first", ScriptedModel(default="ready"))
    clerk = shop.agent("cashier" if change == "an agent renamed" else "clerk")
    if change == "a tool removed":
        clerk = LlmAgent("clerk", shop.model)
    agents: list[BaseAgent] = [first, clerk]
    if change == "another order":
        agents.reverse()
    elif missing is None:
        agents.append(LlmAgent("more", ScriptedModel(default="more")))
    with shop.runner(SequentialAgent("steps", sub_agents=agents)) as runner:
        run = runner.resume(**KEY, answers=[call.approve()])
        if missing is None:
            assert run.answer() == "more"
        else:
            with pytest.raises(AgentTreeChangedError, match=missing):
                run.start()
            assert runner.run(**KEY, message="hi").result().status == "completed"


def test_a_cancel_closes_a_pause_and_going_on_with_the_run_by_its_id_opens_it_again() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        result, (call,) = paused(runner)
        runner.cancel(**KEY, reason="changed my mind")
        assert runner.pending(**KEY) == []
        with pytest.raises(UnknownCallError, match="ended cancelled"):
            runner.resume(**KEY, answers=[call.approve()]).start()
        assert runner.resume(**KEY, invocation_id=result.invocation_id).result().status == "paused"
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "done"


def test_in_an_app_that_is_not_resumable_the_next_message_gives_leave() -> None:
    shop = Shop(PAY, "I need your leave.", "Paid.")
    with Runner(App(APP, shop.agent()), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="Pay!")
        assert run.answer() == "I need your leave."
        (question,) = [
            call
            for event in run.result().events
            for call in event.function_calls
            if call.name == CONFIRMATION
        ]
        yes = Part(function_response=FunctionResponse(question.id, CONFIRMATION, {"confirmed": True}))
        assert runner.run(**KEY, message=Content("user", (yes,))).answer() == "Paid."
        assert runner.pending(**KEY) == []
    assert shop.paid == [(3, None)]


def test_the_model_calls_of_a_run_are_counted_over_its_pauses() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        run = runner.resume(**KEY, answers=[call.approve()], config=RunConfig(max_llm_calls=1))
        with pytest.raises(LlmCallsLimitExceededError):
            run.answer()
    assert len(shop.model.requests) == 1
