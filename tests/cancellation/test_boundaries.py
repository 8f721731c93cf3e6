"""`Cancelled` where nobody has cancelled: each boundary makes an error of it, and no cancel."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps import KEY, app_of, app_with, kinds
from hooks import BOTH_KINDS, app_plugged, plugin
from intermission import (
    Cancelled,
    CancelScope,
    LlmAgent,
    ModelError,
    ModelErrorKind,
    RunConfig,
    RunInterruptedError,
    Runner,
    RunResult,
    RunStatus,
    ToolContext,
    ToolFailedError,
    UnrequestedCancelError,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from turns import responses

HOOKS = ("before_agent_callback", "before_model_callback", "on_event_callback", "after_run_callback")
BOTH_ERRORS = pytest.mark.parametrize("cancelled", [Cancelled, asyncio.CancelledError])


def give_up(*_: Any, **__: Any) -> Any:
    """Raise what nobody has asked for."""
    raise Cancelled("by nobody")


class GivingUp:
    """A model that raises something, once, after a word of its answer if it streams."""

    name = "giving up"

    def __init__(self, raised: type[BaseException]) -> None:
        self.raised = raised
        self.asked = 0

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model`."""
        self.asked += 1
        for response in ScriptedModel(default=text("o", "k")).generate(request):
            if self.asked == 1 and not response.partial:
                raise self.raised
            yield response


def assert_failed(result: RunResult, log: MemoryEventLog) -> None:
    """Assert that the run has failed, by an error that says so, and that the log knows of no cancel."""
    assert result.status is RunStatus.FAILED
    assert "was cancelled, and not by its run" in str(result.error)
    assert "cancel_requested" not in kinds(log)


def test_a_client_gets_the_status_of_its_cancelled_run_or_an_error_and_never_cancelled() -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.cancel("enough")
        assert list(run) == []
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        with pytest.raises(RunInterruptedError, match="enough"):
            run.answer(PATIENCE)
        with pytest.raises(RunInterruptedError, match="enough"):
            asyncio.run(run.aanswer(PATIENCE))
        with pytest.raises(RunInterruptedError, match="enough"):
            run.result(PATIENCE).raise_for_status()


@BOTH_ERRORS
@pytest.mark.parametrize("streaming", [False, True])
def test_a_model_that_raises_cancelled_of_its_own_fails_the_run(
    streaming: bool, cancelled: type[BaseException]
) -> None:
    log = MemoryEventLog()
    with Runner(app_with(GivingUp(cancelled)), log=log, config=RunConfig(streaming=streaming)) as runner:
        with CancelScope() as outer:
            result = runner.run(**KEY, message="hi").result(PATIENCE)
            assert not outer.cancelled
        assert_failed(result, log)
        assert isinstance(result.error, ModelError)
        assert (result.error.kind, result.error.retryable) == (ModelErrorKind.CANCELLED, False)
        assert isinstance(result.error.__cause__, cancelled)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


@BOTH_ERRORS
def test_an_error_callback_may_answer_for_a_model_that_raises_cancelled_of_its_own(
    cancelled: type[BaseException],
) -> None:
    errors = list[Exception]()

    def instead(context: Any, request: ModelRequest, error: Exception) -> ModelResponse:
        errors.append(error)
        return next(iter(ScriptedModel("instead").generate(request)))

    agent = LlmAgent("agent", GivingUp(cancelled), on_model_error_callback=instead)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "instead"
    assert [type(error) for error in errors] == [ModelError]


@BOTH_ERRORS
def test_a_tool_in_a_thread_that_raises_cancelled_of_its_own_is_answered_as_a_tool_that_failed(
    cancelled: type[BaseException],
) -> None:
    def fail() -> None:
        raise cancelled

    log, model = MemoryEventLog(), ScriptedModel(calls(("fail", {})), "ok")
    with Runner(app_with(model, fail), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    assert responses(model) == [{"status": "error", "message": "The tool failed."}]
    assert "cancel_requested" not in kinds(log)


def test_a_scope_of_a_tools_own_that_expires_is_a_failure_of_the_tool() -> None:
    def hurry() -> None:
        with CancelScope(timeout=0) as scope:
            scope.check()

    log, model = MemoryEventLog(), ScriptedModel(calls(("hurry", {})), "ok")
    with Runner(app_with(model, hurry), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.answer(PATIENCE) == "ok"
    assert responses(model) == [{"status": "error", "message": "The tool failed."}]
    assert run.cancel_report is None


def test_a_tool_that_cancels_its_own_call_is_answered_as_a_call_that_was_stopped() -> None:
    def leave(tool_context: ToolContext) -> None:
        tool_context.cancellation.cancel("by itself")
        tool_context.cancellation.check()

    log, model = MemoryEventLog(), ScriptedModel(calls(("leave", {})), "ok")
    with Runner(app_with(model, leave), log=log) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    (told,) = responses(model)
    assert (told["status"], told["outcome"]) == ("stopped", "unknown")
    assert "by itself" in told["message"]
    assert "cancel_requested" not in kinds(log)


@BOTH_ERRORS
@pytest.mark.parametrize("hooked", [False, True], ids=["alone", "with hooks"])
def test_an_async_tool_that_raises_cancelled_of_its_own_fails_the_run(
    hooked: bool, cancelled: type[BaseException]
) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise cancelled

    errors = list[Exception]()
    log, model = MemoryEventLog(), ScriptedModel(calls(("fail", {})), "again")
    agent = LlmAgent(
        "agent",
        model,
        tools=[fail],
        on_tool_error_callback=(lambda tool, args, context, error: errors.append(error)) if hooked else None,
    )
    with Runner(app_of(agent), log=log) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
        assert isinstance(result.error, ToolFailedError)
        assert isinstance(result.error.__cause__, cancelled)
        assert "cancel_requested" not in kinds(log)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "again"
    assert [type(error) for error in errors] == [UnrequestedCancelError] * hooked


@BOTH_KINDS
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_cancelled_of_its_own_fails_the_run(hook: str, kind: str) -> None:
    log = MemoryEventLog()
    agent = LlmAgent("agent", ScriptedModel(default="ok"))
    with Runner(app_plugged(agent, plugin("plugin", kind, **{hook: give_up})), log=log) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
    assert_failed(result, log)
    assert isinstance(result.error, UnrequestedCancelError)
    assert result.error.what.startswith("the hook ")


def test_a_subscriber_that_raises_cancelled_of_its_own_fails_the_run() -> None:
    log, results, over = MemoryEventLog(), list[RunResult](), threading.Event()

    def end(result: RunResult) -> None:
        results.append(result)
        over.set()

    gate = Gate()
    model = ScriptedModel(text("o", gate, "k"), default="ok")
    with Runner(app_with(model), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True))
        run.subscribe(give_up, on_finally=end)
        assert over.wait(PATIENCE)
        gate.open()
        assert results == [run.result(PATIENCE)]
        assert_failed(results[0], log)
        assert isinstance(results[0].error, UnrequestedCancelError)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
