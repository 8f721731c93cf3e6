"""Tools with `isolation="process"` in runs: what they are told, and what a cancel ends and leaves."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plain_tools
import process_tools
import scale
from apps import KEY, app_of, app_with, records
from intermission import (
    FunctionTool,
    LlmAgent,
    RunConfig,
    Runner,
    RunStatus,
    ToolProcessError,
    ToolRaisedError,
)
from intermission.config import ToolExecution
from intermission.testing import ManualClock, ScriptedModel, calls
from intermission.tools.function import Isolation
from intermission_storage import MemoryEventLog
from pids import has_ended, until_ended, written
from pools import until
from turns import PATIENCE, assert_legal, responses

ALL_AT_ONCE = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE, grace=0.2)
ROUNDS = scale.rounds(3, 50)


def in_process(func: Callable[..., Any], **options: Any) -> FunctionTool:
    """A tool of this function."""
    return FunctionTool(func, isolation="process", **options)


def runner_of(model: ScriptedModel, *tools: Any, **options: Any) -> Runner:
    """A runner of an agent with these tools."""
    return Runner(app_with(model, *tools), log=MemoryEventLog(), **options)


def asked(*made: tuple[str, dict[str, Any]], then: str = "done") -> ScriptedModel:
    """A model that makes calls in its first turn, and then only talks."""
    return ScriptedModel(calls(*made), default=then)


def results(model: ScriptedModel) -> list[Any]:
    """The results that the model was told in its last request."""
    return [one.get("result", one) for one in responses(model)]


def test_a_tool_in_a_process_knows_its_call_and_reads_the_state() -> None:
    model = asked(("who", {}))
    with runner_of(model, in_process(process_tools.who)) as runner:
        run = runner.run(**KEY, message="hi", state_delta={"kept": [1], "temp:t": 2})
        run.answer(PATIENCE)
        (call,) = [one for event in run.result().events for one in event.function_calls]
        (found,) = responses(model)

    assert found.pop("pid") != os.getpid()
    assert found == {
        "call": call.id,
        "run": run.invocation_id,
        "user": "u",
        "session": "s",
        "state": {"kept": [1], "temp:t": 2},
        "current": True,
    }


@pytest.mark.parametrize("what", ["set", "delete", "append", "add", "actions", "stop"])
def test_what_a_tool_in_a_process_would_change_of_its_run_is_an_error_that_says_so(what: str) -> None:
    model = asked(("change", {"what": what}))
    with runner_of(model, in_process(process_tools.change)) as runner:
        run = runner.run(**KEY, message="hi", state_delta={"kept": 1})
        assert run.answer(PATIENCE) == "done"

    assert results(model) == [["ReadOnlyContextError", {"kept": 1}]]


@pytest.mark.scenario("A19")
def test_a_tool_that_computes_for_ever_is_ended_by_a_cancel_and_its_neighbours_go_on(tmp_path: Path) -> None:
    spins, other = tmp_path / "spins", tmp_path / "other"
    model = asked(("spin", {"path": str(spins)}), then="again")
    neighbour = asked(("sleep", {"path": str(other)}))
    tools = [in_process(plain_tools.spin), in_process(process_tools.sleep), in_process(plain_tools.ambient)]
    with runner_of(model, *tools) as runner, runner_of(neighbour, *tools) as beside:
        near = beside.run(**KEY, message="hi").start()
        run = runner.run(**KEY, message="hi").start()
        (pid,), (other_pid,) = written(spins), written(other)
        began = time.monotonic()
        run.cancel()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)
        assert has_ended(pid), "terminated means that the process has ended"
        assert time.monotonic() - began < 5, "it was interrupted, and not killed after the grace"
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
        assert not has_ended(other_pid)
        near.cancel()
        assert near.wait_terminated(PATIENCE)


@pytest.mark.scenario("A1")
def test_a_cancel_leaves_the_records_that_it_leaves_of_a_tool_in_a_thread(tmp_path: Path) -> None:
    found = list[list[str]]()
    kinds: list[Isolation] = ["thread", "process"]
    for isolation in kinds:
        path = tmp_path / isolation
        tool = FunctionTool(process_tools.scoped, isolation=isolation)
        log, model = MemoryEventLog(), asked(("scoped", {"path": str(path)}), then="again")
        with Runner(app_with(model, tool), log=log) as runner:
            run = runner.run(**KEY, message="hi").start()
            written(path)
            run.cancel("enough")
            assert run.wait_terminated(PATIENCE)
            assert Path(f"{path}.cleaned").read_text().endswith("enough caller"), "it was told"
            found.append([record.kind for record in records(log)])
            assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
            assert_legal(model.requests[-1])
    assert found[0] == found[1]


@pytest.mark.scenario("A19")
def test_what_does_not_heed_its_cancel_is_killed_after_the_grace_and_the_session_is_free_at_once(
    tmp_path: Path,
) -> None:
    model = asked(("stubborn", {"path": str(tmp_path / "pid")}), then="again")
    with runner_of(model, in_process(process_tools.stubborn), config=RunConfig(grace=1.0)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        began = time.monotonic()
        receipt = run.cancel()
        assert "stubborn" in [work.name for work in receipt.still_running]
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
        assert not run.wait_terminated(0), "the grace is not over"
        assert ("tool", "stubborn") in [(work.what, work.name) for work in runner.residual()]
        assert run.wait_terminated(PATIENCE)
        assert has_ended(pid)
        assert time.monotonic() - began >= 1.0
        assert runner.residual() == []


@pytest.mark.scenario("A20")
def test_the_children_of_a_tool_end_with_it(tmp_path: Path) -> None:
    script = "sleep 300 & echo $$ $! > PATH; wait"
    model = asked(("run_group", {"path": str(tmp_path / "pids"), "script": script}), then="again")
    with runner_of(model, in_process(process_tools.run_group)) as runner:
        run = runner.run(**KEY, message="hi").start()
        shell, grandchild = written(tmp_path / "pids", 2)
        run.cancel()
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
        assert run.wait_terminated(PATIENCE)
        until_ended(shell, grandchild)


def test_the_children_that_do_not_heed_it_are_killed_after_the_grace(tmp_path: Path) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > PATH; while :; do sleep 1000; done'"
    model = asked(("run_group", {"path": str(tmp_path / "pids"), "script": script}))
    with runner_of(model, in_process(process_tools.run_group), config=RunConfig(grace=0.2)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (grandchild,) = written(tmp_path / "pids")
        run.cancel()
        assert run.wait_terminated(PATIENCE)
        until_ended(grandchild)


def test_groups_that_a_tool_has_made_in_its_session_are_killed_with_it(tmp_path: Path) -> None:
    model = asked(("stuck_with_group", {"path": str(tmp_path / "pid")}))
    tools = [in_process(process_tools.stuck_with_group)]
    with runner_of(model, *tools, config=RunConfig(grace=0.2)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (shell,) = written(tmp_path / "pid")
        run.cancel()
        assert run.wait_terminated(PATIENCE)
        until_ended(shell)
        assert runner.residual() == []


@pytest.mark.scenario("A20")
def test_a_grandchild_that_left_the_group_is_residual_work_until_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = "setsid sh -c 'echo $$ > PATH; exec sleep 1000' & wait"
    model = asked(("run_group", {"path": str(tmp_path / "pid"), "script": script}), then="again")
    with runner_of(model, in_process(process_tools.run_group), config=RunConfig(grace=1.0)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        try:
            run.cancel()
            assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
            until(lambda: [work.what for work in runner.residual()] == ["process"])
            (left,) = runner.residual()
            assert left.name in {f"sh (process {pid})", f"sleep (process {pid})"}
            assert left.call_id is not None
            assert "left the process group" in left.reason
            assert not run.wait_terminated(0)
            assert not has_ended(pid), "it has left the group, and is not ours to end"
        finally:
            os.kill(pid, signal.SIGKILL)
        assert run.wait_terminated(PATIENCE)
        assert runner.residual() == []
    (told,) = [one for one in caplog.records if "left the process group" in one.getMessage()]
    assert (told.levelname, told.__dict__["session"]) == ("WARNING", "s")


def test_a_scope_in_a_process_is_cancelled_with_the_reason_and_its_clean_up_is_not_disturbed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pid"
    model = asked(("scoped", {"path": str(path)}))
    with runner_of(model, in_process(process_tools.scoped), config=RunConfig(grace=PATIENCE)) as runner:
        run = runner.run(**KEY, message="hi").start()
        written(path)
        run.cancel("enough")
        assert run.wait_terminated(PATIENCE)
    assert (tmp_path / "pid.cleaned").read_text() == "499 enough caller"


def test_a_wait_that_knows_no_scope_is_interrupted_and_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    model = asked(("sleep", {"path": str(path)}))
    with runner_of(model, in_process(process_tools.sleep), config=RunConfig(grace=PATIENCE)) as runner:
        run = runner.run(**KEY, message="hi").start()
        written(path)
        run.cancel()
        assert run.wait_terminated(PATIENCE)
    assert (tmp_path / "pid.cleaned").exists()


def test_hooks_in_a_process_run_though_the_tool_itself_looks_at_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    model = asked(("hooked", {"path": str(path)}))
    with runner_of(model, in_process(process_tools.hooked), config=RunConfig(grace=1.0)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(path)
        run.cancel()
        assert written(tmp_path / "pid.hook") == [pid]
        assert run.wait_terminated(PATIENCE)


def test_a_shield_in_a_process_keeps_the_cancel_away_and_then_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    model = asked(("shielded", {"path": str(path)}))
    with runner_of(model, in_process(process_tools.shielded), config=RunConfig(grace=PATIENCE)) as runner:
        run = runner.run(**KEY, message="hi").start()
        written(path)
        run.cancel()
        (tmp_path / "pid.go").touch()
        assert run.wait_terminated(PATIENCE / 2), "it is interrupted behind the shield, and not killed"
    assert (tmp_path / "pid.whole").exists()


def test_a_wait_of_the_runtime_in_a_process_ends_its_own_child(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    model = asked(("tidy", {"path": str(path)}))
    with runner_of(model, in_process(process_tools.tidy)) as runner:
        run = runner.run(**KEY, message="hi").start()
        (child,) = written(tmp_path / "pid.child")
        run.cancel()
        assert run.wait_terminated(PATIENCE)
        until_ended(child)


def test_a_tool_that_swallows_the_interruption_has_changed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    log, model = MemoryEventLog(), asked(("swallow", {"path": str(path)}))
    with Runner(app_with(model, in_process(process_tools.swallow)), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        written(path)
        run.cancel()
        assert run.wait_terminated(PATIENCE)
    assert run.status is RunStatus.CANCELLED
    assert "all is well" not in "".join(str(record.data) for record in records(log))


def test_a_call_beyond_its_time_ends_its_process_and_the_model_is_told(tmp_path: Path) -> None:
    clock, model = ManualClock(), asked(("spin", {"path": str(tmp_path / "pid")}))
    with runner_of(model, in_process(plain_tools.spin, timeout=10), clock=clock) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        clock.advance(10)
        assert run.answer(PATIENCE) == "done"
        assert run.wait_terminated(PATIENCE)
        assert has_ended(pid)
    (told,) = responses(model)
    assert (told["status"], told["outcome"]) == ("timeout", "unknown")


def test_one_call_is_given_up_and_its_siblings_processes_go_on(tmp_path: Path) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    model = asked(*(("sleep", {"path": str(path)}) for path in paths))
    with runner_of(model, in_process(process_tools.sleep), config=ALL_AT_ONCE) as runner:
        run = runner.run(**KEY, message="hi").start()
        (first,), (second,) = written(paths[0]), written(paths[1])
        one, other = runner.sessions.events(**KEY)[-1].function_calls
        assert run.cancel_call(one.id, "not this one")
        until_ended(first)
        assert not has_ended(second)
        assert run.cancel_call(other.id)
        assert run.answer(PATIENCE) == "done"
    assert [told["status"] for told in responses(model)] == ["stopped", "stopped"]


def test_close_ends_the_processes_of_its_runs_and_the_idle_ones(tmp_path: Path) -> None:
    model = asked(("ambient", {}), ("stubborn", {"path": str(tmp_path / "pid")}))
    tools = [in_process(plain_tools.ambient), in_process(process_tools.stubborn)]
    with runner_of(model, *tools, config=ALL_AT_ONCE) as runner:
        run = runner.run(**KEY, message="hi").start()
        (pid,) = written(tmp_path / "pid")
        runner.close(grace=0, runs="cancel")
        assert run.status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)
        assert has_ended(pid)


def test_an_error_in_a_process_is_told_as_one_in_a_thread_and_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = asked(("fail", {"how": "value"}))
    with runner_of(model, in_process(process_tools.fail)) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
    assert responses(model) == [{"status": "error", "message": "The tool failed."}]
    (told,) = [one for one in caplog.records if one.getMessage() == "tool fail failed"]
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], ToolRaisedError)
    assert told.__dict__["session"] == "s"
    assert "raise errors[how]" in caplog.text


def test_a_callback_may_answer_for_a_process_that_died() -> None:
    seen = list[Exception]()

    def sorry(tool: Any, args: Any, context: Any, error: Exception) -> dict[str, Any]:
        seen.append(error)
        return {"status": "gone"}

    model = asked(("vanish", {"how": "kill"}))
    agent = LlmAgent("agent", model, tools=[in_process(plain_tools.vanish)], on_tool_error_callback=sorry)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"
    assert responses(model) == [{"status": "gone"}]
    (error,) = seen
    assert isinstance(error, ToolProcessError)


def children_of_this_process() -> list[str]:
    """Their numbers; those that have ended and are not reaped included."""
    return [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


@pytest.mark.parametrize("moment", ["it is stored", "its process starts", "it is at work"])
def test_a_cancel_at_any_moment_of_a_call_leaves_nothing_and_the_next_run_works(
    moment: str, tmp_path: Path
) -> None:
    for number in range(ROUNDS):
        path, before = tmp_path / str(number), len(children_of_this_process())
        model = ScriptedModel(calls(("sleep", {"path": str(path)})), default="done")
        with runner_of(model, in_process(process_tools.sleep)) as runner:
            run = runner.run(**KEY, message="hi").start()
            come: dict[str, Callable[[], object]] = {
                "it is stored": lambda: runner.sessions.events(**KEY)[-1].function_calls,
                "its process starts": lambda: len(children_of_this_process()) > before,  # noqa: B023 - it is called here
                "it is at work": path.exists,
            }
            until(lambda: bool(come[moment]()))  # noqa: B023 - it is called here
            run.cancel()
            assert run.result(PATIENCE).status is RunStatus.CANCELLED
            assert run.wait_terminated(PATIENCE)
            assert len(children_of_this_process()) == before
            assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"


@pytest.mark.scenario("J4")
def test_hundreds_of_calls_in_processes_are_all_answered() -> None:
    count = 300
    model = ScriptedModel(calls(*(("add", {"a": number}) for number in range(count))), "done")
    with runner_of(model, in_process(plain_tools.add)) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.answer(PATIENCE) == "done"
    assert results(model) == [number + 1 for number in range(count)]
