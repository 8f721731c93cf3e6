"""`Cancelled` where nobody has cancelled: each boundary makes an error of it, and no cancel."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps import KEY, app_with, kinds
from hooks import BOTH_KINDS, app_plugged, plugin
from intermission import Cancelled, LlmAgent, RunConfig, RunInterruptedError, Runner, RunResult, RunStatus
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

HOOKS = ("before_agent_callback", "before_model_callback", "on_event_callback", "after_run_callback")


def give_up(*_: Any, **__: Any) -> Any:
    """Raise what nobody has asked for."""
    raise Cancelled("by nobody")


class GivingUp:
    """A model that does so, once."""

    name = "giving up"

    def __init__(self) -> None:
        self.asked = 0

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model`."""
        self.asked += 1
        if self.asked == 1:
            give_up()
        return ScriptedModel(default="ok").generate(request)


def assert_failed(result: RunResult, log: MemoryEventLog) -> None:
    """Assert that the run has failed, by an error that says so, and that the log knows of no cancel."""
    assert result.status is RunStatus.FAILED
    assert "cancelled" in str(result.error)
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


def test_a_model_that_raises_cancelled_of_its_own_fails_the_run() -> None:
    log = MemoryEventLog()
    with Runner(app_with(GivingUp()), log=log) as runner:
        assert_failed(runner.run(**KEY, message="hi").result(PATIENCE), log)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


@BOTH_KINDS
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_cancelled_of_its_own_fails_the_run(hook: str, kind: str) -> None:
    log = MemoryEventLog()
    agent = LlmAgent("agent", ScriptedModel(default="ok"))
    with Runner(app_plugged(agent, plugin("plugin", kind, **{hook: give_up})), log=log) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
    assert_failed(result, log)
    assert str(result.error).startswith("the hook ")
    assert str(result.error).endswith("was cancelled, and not by its run")


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
        assert results[0].status is RunStatus.FAILED
        assert "cancel_requested" not in kinds(log)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
