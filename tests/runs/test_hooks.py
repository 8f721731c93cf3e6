"""Hooks that a call puts on its cancel: they are work of the run, too."""

import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_with
from intermission import Runner, ToolContext
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def test_a_hook_of_a_cancelled_call_is_work_of_its_run_until_it_returns(gate: Gate) -> None:
    def work(tool_context: ToolContext) -> None:
        tool_context.cancellation.on_cancel(gate.wait)
        begun.set()
        tool_context.cancellation.wait()

    begun = threading.Event()
    app = app_with(ScriptedModel(calls(("work", {})), default="ok"), work)
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        run.cancel()
        gate.arrived()
        until(lambda: [one.what for one in run.cancel(wait=True, timeout=0).still_running] == ["hook"])
        assert not run.wait_terminated(0)
        (left,) = runner.residual()
        assert (left.what, left.name, left.invocation_id) == ("hook", "wait", run.invocation_id)
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert run.cancel(wait=True).still_running == ()
        assert runner.residual() == []


def test_hooks_that_raise_or_were_removed_or_find_the_runner_closed_leave_no_work() -> None:
    def fail() -> None:
        raise ValueError("a hook")

    def work(tool_context: ToolContext) -> None:
        scope = tool_context.cancellation
        scope.on_cancel(fail)
        scope.on_cancel(fail).remove()
        begun.set()
        late.wait(PATIENCE)
        scope.on_cancel(fail)

    begun, late = threading.Event(), threading.Event()
    app = app_with(ScriptedModel(calls(("work", {})), default="ok"), work)
    runner = Runner(app, log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    assert begun.wait(PATIENCE)
    runner.close(grace=0)
    late.set()
    assert run.wait_terminated(PATIENCE)
    assert runner.residual() == []
