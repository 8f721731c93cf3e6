"""Reported failures of pauses in one process: several calls, several pauses, what a model is asked."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from apps import KEY, records
from intermission import (
    Content,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    Part,
    PendingCall,
    RunConfig,
    Runner,
    RunStatus,
    SequentialAgent,
    UnknownCallError,
)
from intermission.models import ChatCompletions, Model, ModelRequest
from intermission.testing import ModelServer, ScriptedModel, calls, contents_problems
from intermission_storage import MemoryEventLog
from paused_apps import agent, assert_one_of_each, played, resumable
from wire_shapes import problems_on_the_wire

MODES = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def log() -> Iterator[MemoryEventLog]:
    """A log whose session is looked through in the end."""
    log = MemoryEventLog()
    yield log
    assert_one_of_each(log)


class Bank:
    """Tools whose results come from outside, or that need leave, and how often each was begun."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.paid: list[int] = []

    def order(self, n: int) -> dict[str, str] | None:
        """Begin what others end."""
        self.begun.append(n)
        return {"error": "n must be positive"} if n < 0 else None

    def pay(self, n: int) -> dict[str, int]:
        """Pay."""
        self.paid.append(n)
        return {"paid": n}

    @property
    def tools(self) -> list[Any]:
        """The two."""
        return [LongRunningFunctionTool(self.order), FunctionTool(self.pay, require_confirmation=True)]


@pytest.fixture
def bank() -> Bank:
    """A bank."""
    return Bank()


def by_argument(calls: Iterable[PendingCall]) -> list[PendingCall]:
    """Calls by their number."""
    return sorted(calls, key=lambda call: call.arguments["n"])


def assert_legal(request: ModelRequest) -> None:
    """Assert that a request breaks no rule of OpenAI's, Anthropic's and Gemini's services."""
    assert contents_problems(request.contents) == []
    assert problems_on_the_wire(request.contents) == {}


def responses_in(request: ModelRequest) -> list[dict[str, Any]]:
    """The results at the end of a request, without their ids."""
    return [dict(one.response) for one in request.contents[-1].function_responses]


@pytest.mark.scenario("C2")
@MODES
@pytest.mark.parametrize("tool", ["order", "pay"])
def test_a_sub_agent_that_pauses_twice_in_a_row_is_gone_on_with_both_times(
    log: MemoryEventLog, bank: Bank, streaming: bool, tool: str
) -> None:
    model = ScriptedModel(calls((tool, {"n": 1})), calls((tool, {"n": 2})), "all done")
    inner = LlmAgent("inner", model, tools=bank.tools)
    root = SequentialAgent("root", sub_agents=[agent("first"), inner, agent("last")])
    config = RunConfig(streaming=streaming)
    with Runner(resumable(root), log=log) as runner:
        run = runner.run(**KEY, message="go", config=config)
        for asked in (1, 2):
            played(run)
            assert run.status is RunStatus.PAUSED
            (call,) = runner.pending(**KEY)
            assert call.arguments == {"n": asked}
            assert len(model.requests) == asked
            run = runner.resume(**KEY, answers={call.id: {"confirmed": True}}, config=config)
        finals = [event.text for event in played(run) if event.is_final and event.text]
    assert finals == ["all done", "last is done"]
    assert run.status is RunStatus.COMPLETED
    for request in model.requests:
        assert_legal(request)


@pytest.mark.scenario("C3", "C7")
@MODES
@pytest.mark.parametrize("tool", ["order", "pay"])
def test_three_calls_that_wait_are_answered_in_reverse_and_the_model_is_asked_once_after_the_third(
    log: MemoryEventLog, bank: Bank, streaming: bool, tool: str
) -> None:
    model = ScriptedModel(calls(*[(tool, {"n": n}) for n in (1, 2, 3)]), "all done")
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        run = runner.run(**KEY, message="go", config=RunConfig(streaming=streaming))
        played(run)
        waiting = by_argument(runner.pending(**KEY))
        assert len({call.id for call in waiting}) == 3
        for call in reversed(waiting):
            assert run.status is RunStatus.PAUSED
            assert len(model.requests) == 1
            answer = {"confirmed": True} if tool == "pay" else {"value": call.arguments["n"] * 10}
            run = runner.resume(**KEY, answers=[call.reply(answer)])
            played(run)
            left = by_argument(runner.pending(**KEY))
            assert left == waiting[: call.arguments["n"] - 1]
            assert by_argument(run.result().pending) == left
        assert run.answer(30) == "all done"
        assert runner.pending(**KEY) == []
    assert sorted(bank.begun + bank.paid) == [1, 2, 3]  # each was begun once
    assert len(model.requests) == 2
    assert_legal(model.requests[1])
    expected = [{"value": n * 10} if tool == "order" else {"paid": n} for n in (1, 2, 3)]
    assert responses_in(model.requests[1]) == expected


@pytest.mark.scenario("C3")
def test_a_service_that_refuses_illegal_histories_takes_what_was_answered_in_pieces(bank: Bank) -> None:
    turn = calls(("order", {"n": 1}), ("pay", {"n": 2}), ("order", {"n": 3}))
    with (
        ModelServer(turn, "all done", "and on") as server,
        Runner(
            resumable(LlmAgent("one", ChatCompletions("any", base_url=server.url), tools=bank.tools)),
            log=MemoryEventLog(),
        ) as runner,
    ):
        run = runner.run(**KEY, message="go")
        played(run)
        for call in reversed(by_argument(runner.pending(**KEY))):
            run = runner.resume(**KEY, answers={call.id: {"confirmed": True}})
            played(run)
        assert run.answer(30) == "all done"
        assert runner.run(**KEY, message="more").answer(30) == "and on"
        assert len(server.requests) == 3


@pytest.mark.scenario("C3", "C7")
def test_a_new_message_beside_calls_that_wait_sends_the_model_a_legal_history(
    log: MemoryEventLog, bank: Bank
) -> None:
    model = ScriptedModel(calls(("order", {"n": 1}), ("pay", {"n": 2})), "later", "all done")
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        played(runner.run(**KEY, message="go"))
        waiting = by_argument(runner.pending(**KEY))
        assert runner.run(**KEY, message="meanwhile").answer(30) == "later"
        assert by_argument(runner.pending(**KEY)) == waiting
        run = runner.resume(**KEY, answers=[waiting[0].reply({"v": 1}), waiting[1].approve()])
        assert run.answer(30) == "all done"
    for request in model.requests:
        assert_legal(request)
    assert bank.paid == [2]


@pytest.mark.scenario("C18")
@MODES
def test_each_call_has_one_event_one_response_and_one_answer_and_is_shown_once(
    log: MemoryEventLog, bank: Bank, streaming: bool
) -> None:
    model = ScriptedModel(calls(("order", {"n": 1}), ("pay", {"n": 2})), "all done")
    config = RunConfig(streaming=streaming)
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        shown = played(runner.run(**KEY, message="go", config=config))
        waiting = runner.pending(**KEY)
        for call in waiting:
            run = runner.resume(**KEY, answers={call.id: {"confirmed": True}}, config=config)
            shown += played(run)
    calls_shown = [one.id for event in shown if not event.partial for one in event.function_calls]
    responses_shown = [one.id for event in shown for one in event.function_responses]
    answered = [record.data["callId"] for record in records(log) if record.kind == "answer"]
    for call in waiting:
        assert calls_shown.count(call.id) == calls_shown.count(call.function_call_id) == 1
        assert answered.count(call.id) == 1
        # A result from outside is the user's to say, and is not shown to who said it.
        assert responses_shown.count(call.function_call_id) == (0 if call.id == call.function_call_id else 1)


@pytest.mark.scenario("C20")
@pytest.mark.parametrize("approved", [True, False])
def test_a_call_that_waits_for_leave_keeps_no_other_of_its_turn_and_is_made_with_the_stored_arguments(
    log: MemoryEventLog, bank: Bank, approved: bool
) -> None:
    looked: list[int] = []

    def look() -> str:
        """Look."""
        looked.append(len(bank.paid))
        return "seen"

    model = ScriptedModel(calls(("pay", {"n": 7}), ("look", {})), "all done")
    with Runner(resumable(LlmAgent("one", model, tools=[*bank.tools, look])), log=log) as runner:
        played(runner.run(**KEY, message="go"))
        assert looked == [0]
        (call,) = runner.pending(**KEY)
        answer = call.approve() if approved else call.reject("too much")
        run = runner.resume(**KEY, answers=[answer])
        assert [one.name for event in played(run) for one in event.function_calls] == []
        assert run.answer(30) == "all done"
    assert bank.paid == ([7] if approved else [])
    assert looked == [0]
    assert len(model.requests) == 2
    assert_legal(model.requests[1])
    paid, seen = responses_in(model.requests[1])
    assert seen == {"result": "seen"}
    assert paid == {"paid": 7} if approved else paid["status"] == "rejected"


@pytest.mark.scenario("C23")
@MODES
def test_a_long_running_call_that_returns_an_error_pauses_nothing_and_the_model_corrects_itself(
    log: MemoryEventLog, bank: Bank, streaming: bool
) -> None:
    model = ScriptedModel(calls(("order", {"n": -1})), calls(("order", {"n": 1})), "all done")
    config = RunConfig(streaming=streaming)
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        run = runner.run(**KEY, message="go", config=config)
        played(run)
        assert run.status is RunStatus.PAUSED
        assert responses_in(model.requests[1]) == [{"error": "n must be positive"}]
        (call,) = runner.pending(**KEY)
        assert call.arguments == {"n": 1}
        assert runner.resume(**KEY, answers=[call.reply({"v": 1})]).answer(30) == "all done"
    assert bank.begun == [-1, 1]


def resumed_by_id(runner: Runner, invocation_id: str | None) -> Any:
    """Ask for an invocation by its id."""
    return runner.resume(**KEY, invocation_id=invocation_id)


def resumed_by_answer(runner: Runner, invocation_id: str | None) -> Any:
    """Answer once more what was answered."""
    events = runner.sessions.events(**KEY)
    call = next(one for event in events for one in event.function_calls if one.name == "order")
    return runner.resume(**KEY, answers={call.id: {"v": 2}})


@pytest.mark.scenario("D6")
@pytest.mark.parametrize("way", [resumed_by_id, resumed_by_answer])
def test_a_resume_with_nothing_open_ends_at_once_without_a_model_call_or_a_record(
    log: MemoryEventLog, bank: Bank, way: Callable[[Runner, str | None], Any]
) -> None:
    model = ScriptedModel(calls(("order", {"n": 1})), "all done")
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        first = runner.run(**KEY, message="go")
        played(first)
        waits = resumed_by_id(runner, first.invocation_id)
        assert played(waits) == []
        assert waits.status is RunStatus.PAUSED
        (call,) = runner.pending(**KEY)
        played(runner.resume(**KEY, answers=[call.reply({"v": 1})]))
        before = records(log)
        again = way(runner, first.invocation_id)
        assert played(again) == []
        assert (again.status, again.result().pending) == (RunStatus.COMPLETED, ())
        assert records(log) == before
    assert len(model.requests) == 2


@pytest.mark.scenario("D6")
@pytest.mark.parametrize("text_first", [True, False])
def test_an_answer_and_a_text_in_one_message_are_both_in_the_log_the_answer_first(
    log: MemoryEventLog, bank: Bank, text_first: bool
) -> None:
    model = ScriptedModel(calls(("order", {"n": 1})), "all done", default="later")
    with Runner(resumable(LlmAgent("one", model, tools=bank.tools)), log=log) as runner:
        played(runner.run(**KEY, message="go"))
        (call,) = runner.pending(**KEY)
        said = Part(text="and be quick")
        answer = Part(function_response=FunctionResponse(call.id, "order", {"v": 1}))
        parts = (said, answer) if text_first else (answer, said)
        run = runner.run(**KEY, message=Content("user", parts))
        assert run.answer(30) == "all done"
        stored = [event for event in runner.sessions.events(**KEY) if event.author == "user"][1:]
        assert [part for event in stored for part in event.content.parts] == [answer, said]  # type: ignore[union-attr]  # a user event has content
        assert runner.run(**KEY, message="more").answer(30) == "later"
    for request in model.requests:
        assert_legal(request)
    heard = [part.text for content in model.requests[1].contents for part in content.parts]
    assert "and be quick" in heard


@pytest.mark.scenario("D6")
def test_a_text_beside_an_answer_that_nobody_waits_for_is_refused_and_neither_is_stored(
    log: MemoryEventLog, bank: Bank
) -> None:
    with Runner(resumable(agent("one", tools=bank.tools)), log=log) as runner:
        played(runner.run(**KEY, message="go"))
        before = records(log)
        parts = (Part(function_response=FunctionResponse("foreign", "order", {})), Part(text="hi"))
        with pytest.raises(UnknownCallError, match="foreign"):
            runner.run(**KEY, message=Content("user", parts)).start()
        assert records(log) == before


def failing(*_: Any) -> None:
    """An output check that does not pass."""
    raise ValueError("the output is not fit to be shown")


class Fails:
    """A callback that fails from its `count`-th call on."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, *_: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = 1
            if not self.mended:
                failing()

    mended = False


@pytest.mark.scenario("B5")
@pytest.mark.parametrize("callback", ["after_model_callback", "after_agent_callback"])
def test_an_output_check_that_fails_after_an_approved_call_keeps_call_and_response_and_repeats_nothing(
    log: MemoryEventLog, bank: Bank, callback: str
) -> None:
    check = Fails(2 if callback == "after_model_callback" else 1)
    model: Model = ScriptedModel(calls(("pay", {"n": 7})), "unfit", default="fit")
    root = LlmAgent("one", model, tools=bank.tools, **{callback: check})  # type: ignore[arg-type]  # a callback
    with Runner(resumable(root), log=log) as runner:
        played(runner.run(**KEY, message="go"))
        (call,) = runner.pending(**KEY)
        run = runner.resume(**KEY, answers=[call.approve()])
        with pytest.raises(ValueError, match="not fit"):
            played(run)
        assert run.status is RunStatus.FAILED
        events = runner.sessions.events(**KEY)
        assert [
            one.response for event in events for one in event.function_responses if one.name == "pay"
        ] == [{"paid": 7}]
        assert runner.pending(**KEY) == []
        check.mended = True
        assert runner.run(**KEY, message="more").answer(30) == "fit"
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        played(again)
        assert again.status is RunStatus.COMPLETED
    assert bank.paid == [7]
    assert isinstance(model, ScriptedModel)
    for request in model.requests:
        assert_legal(request)
