"""What is done by force to work that does not end by being asked, and what a cancel's report says of it."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plain_tools
import process_tools
from apps import KEY, app_with
from intermission import (
    CancelScope,
    Force,
    FunctionTool,
    Run,
    RunConfig,
    Runner,
    ToolContext,
    blocking,
)
from intermission.processes.groups import Group
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pids import written
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
        until(lambda: len(steps_of(run)) == 3)
        assert steps_of(run) == [(Force.HOOK_REJECTED, "wait")] * 3
        gate.open()
        assert run.wait_terminated(PATIENCE)


def steps_of(run: Run) -> list[tuple[str, str]]:
    """The force that was taken, as a run's report has it."""
    assert run.cancel_report is not None
    return [(step.force, step.name) for step in run.cancel_report.escalations]


def runs_a_command(script: str) -> None:
    """Run a shell script, for as long as it takes."""
    blocking.run(["sh", "-c", script], grace=0.1)


def opens_a_command(script: str) -> None:
    """Run a shell script, and stay until its pipe ends."""
    with blocking.popen(["sh", "-c", script], stdout=subprocess.PIPE, grace=0.1) as child:
        assert child.stdout is not None
        child.stdout.read()


HEEDS = "echo $$ > PATH; exec sleep 1000"
STUBBORN = "trap '' TERM; echo $$ > PATH; while :; do sleep 1000; done"
LEAVES = "(trap '' TERM; exec >&- 2>&-; echo $$ > PATH; while :; do sleep 1000; done) & sleep 1000"


@pytest.mark.parametrize(
    ("script", "forces"),
    [
        (HEEDS, [Force.TERMINATED]),
        (STUBBORN, [Force.TERMINATED, Force.KILLED]),
        (LEAVES, [Force.TERMINATED, Force.KILLED]),
    ],
    ids=["heeds", "stubborn", "leaves somebody stubborn"],
)
@pytest.mark.parametrize("command", [runs_a_command, opens_a_command])
def test_each_signal_that_ends_a_command_of_a_call_stands_in_the_report_of_its_run(
    command: Callable[[str], None], script: str, forces: list[Force], tmp_path: Path
) -> None:
    model = ScriptedModel(calls((command.__name__, {"script": script.replace("PATH", f"{tmp_path}/pid")})))
    with Runner(app_with(model, command), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        run.cancel(wait=True, timeout=PATIENCE)
        assert steps_of(run) == [(force, f"process {pid}") for force in forces]
        assert run.cancel_report is not None
        first, *_ = run.cancel_report.escalations
        assert run.cancel_report.requested <= first.at


def go_on(group: int, signal: int) -> None:
    """Be sent a signal, and live."""


def test_a_kill_that_is_repeated_is_one_step_of_force(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[Force]()
    with subprocess.Popen(["sleep", "1000"], process_group=0) as child:
        with monkeypatch.context() as patched:
            patched.setattr(os, "killpg", go_on)
            group = Group(child, 0.0, lambda force, _: told.append(force))
            for _ in range(4):
                group.press()
        child.kill()
    assert told == [Force.TERMINATED, Force.KILLED]


def fails_when_its_command_has_ended() -> None:
    """Raise while a child has ended and is not reaped."""
    with blocking.popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        raise ChildProcessError


def test_a_command_that_ends_by_itself_is_no_force() -> None:
    def ends() -> None:
        with pytest.raises(ChildProcessError):
            fails_when_its_command_has_ended()
        runs_a_command("exit 0")
        over.set()

    over = threading.Event()
    with Runner(app_with(ScriptedModel(calls(("ends", {})), "ok"), ends), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
        assert over.is_set()
        assert not any(runner.metrics()["forced_escalations_total"].values())


def test_a_time_limit_of_a_command_is_force_in_a_run_that_nobody_has_cancelled() -> None:
    def waits() -> None:
        with pytest.raises(subprocess.TimeoutExpired):
            blocking.run(["sleep", "1000"], timeout=0.01)

    with Runner(app_with(ScriptedModel(calls(("waits", {})), "ok"), waits), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.answer(PATIENCE) == "ok"
        assert run.cancel_report is None
        found = runner.metrics()["forced_escalations_total"]
        assert {force: count for force, count in found.items() if count} == {Force.TERMINATED: 1}


@pytest.mark.parametrize(
    ("func", "forces"),
    [(plain_tools.spin, [Force.TERMINATED]), (process_tools.stubborn, [Force.TERMINATED, Force.KILLED])],
    ids=["heeds", "stubborn"],
)
def test_each_signal_that_ends_the_process_of_a_tool_stands_in_the_report_and_is_counted(
    func: Callable[..., Any], forces: list[Force], tmp_path: Path
) -> None:
    model = ScriptedModel(calls((func.__name__, {"path": f"{tmp_path}/pid"})))
    app, config = app_with(model, FunctionTool(func, isolation="process")), RunConfig(grace=0.2)
    with Runner(app, log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        run.cancel(wait=True, timeout=PATIENCE)
        assert steps_of(run) == [(force, f"process {pid}") for force in forces]
        found = runner.metrics()["forced_escalations_total"]
        assert {force: count for force, count in found.items() if count} == dict.fromkeys(forces, 1)


def test_a_process_that_serves_call_after_call_and_then_ends_is_no_force() -> None:
    tool = FunctionTool(plain_tools.add, isolation="process")
    model = ScriptedModel(calls(("add", {"a": 1})), calls(("add", {"a": 2})), "ok")
    with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    assert not any(runner.metrics()["forced_escalations_total"].values())


def test_force_that_is_told_outside_of_all_runs_is_nobodys() -> None:
    with CancelScope() as scope:
        scope.escalate(Force.KILLED, "process 7")
