"""What is done by force to work that does not end by being asked, and what a cancel's report says of it."""

import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_with
from intermission import CancelScope, Force, Runner, ToolContext
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until

HOOKS = 256  # of the pool that runs hooks of `on_cancel`


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def test_hooks_that_were_rejected_stand_in_the_report_of_the_cancel(gate: Gate) -> None:
    def hooked(tool_context: ToolContext) -> None:
        for _ in range(HOOKS + 3):
            tool_context.cancellation.on_cancel(gate.wait)
        hooks.set()
        tool_context.cancellation.wait()

    hooks = threading.Event()
    model = ScriptedModel(calls(("hooked", {})))
    with Runner(app_with(model, hooked), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert hooks.wait(PATIENCE)
        run.cancel()

        def report() -> list[tuple[str, str]]:
            assert run.cancel_report is not None
            return [(step.force, step.name) for step in run.cancel_report.escalations]

        until(lambda: len(report()) == 3)
        assert report() == [(Force.HOOK_REJECTED, "wait")] * 3
        gate.open()
        assert run.wait_terminated(PATIENCE)


def test_what_ends_a_process_of_a_call_by_force_says_so_in_the_report_of_its_run() -> None:
    def killing(tool_context: ToolContext) -> None:
        scope = tool_context.cancellation
        begun.set()
        scope.wait()
        CancelScope.child_of(scope).escalate(Force.TERMINATED, "process 7")
        scope.escalate(Force.KILLED, "process 7")

    begun = threading.Event()
    model = ScriptedModel(calls(("killing", {})))
    with Runner(app_with(model, killing), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        run.cancel(wait=True, timeout=PATIENCE)
        assert run.cancel_report is not None
        steps = run.cancel_report.escalations
        assert [(step.force, step.name) for step in steps] == [
            (Force.TERMINATED, "process 7"),
            (Force.KILLED, "process 7"),
        ]
        assert run.cancel_report.requested <= steps[0].at <= steps[1].at


def test_force_that_is_told_outside_of_all_runs_is_nobodys() -> None:
    with CancelScope() as scope:
        scope.escalate(Force.KILLED, "process 7")
