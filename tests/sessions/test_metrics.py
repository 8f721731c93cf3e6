"""`Runner.metrics`: what a runner has counted, and what it has at the moment."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, app_of, app_with
from hooks import app_plugged, plugin
from intermission import (
    AgentTool,
    CancelSource,
    Force,
    LlmAgent,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    tool,
)
from intermission.testing import FaultyLog, Gate, ManualClock, ScriptedModel, calls, text
from intermission_storage import LmdbEventLog, MemoryEventLog
from loops import PATIENCE
from pools import until
from tree import read


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def some(found: Mapping[str, int]) -> dict[str, int]:
    """The labels that count something."""
    return {label: count for label, count in found.items() if count}


def test_runs_are_counted_by_how_they_ended() -> None:
    model = ScriptedModel("one", "two", calls(("fails", {})), default=text("late", Gate()))
    with Runner(app_with(model), log=MemoryEventLog(), config=RunConfig(max_llm_calls=1)) as runner:
        for number in range(2):
            runner.run(user_id="u", session_id=str(number), message="hi").answer(PATIENCE)
        runner.run(**KEY, message="hi").result(PATIENCE)
        cold = runner.run(**KEY, message="hi")
        cold.cancel()
        found = runner.metrics()
    assert found["runs_started_total"] == 3
    assert some(found["runs_ended_total"]) == {"completed": 2, "failed": 1, "cancelled": 1}
    assert found["runs_ended_total"].keys() == {str(status) for status in RunStatus}


def test_a_cancel_is_counted_when_it_is_requested_when_it_is_acknowledged_and_when_all_has_returned(
    gate: Gate,
) -> None:
    def stubborn() -> None:
        gate.wait()

    with Runner(app_with(ScriptedModel(calls(("stubborn", {}))), stubborn), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert some(runner.metrics()["cancels_requested_total"]) == {}
        run.cancel()
        run.cancel()
        run.result(PATIENCE)
        found = runner.metrics()
        steps = ("requested", "acknowledged", "terminated")
        assert [some(found[f"cancels_{step}_total"]) for step in steps] == [{"caller": 1}, {"caller": 1}, {}]
        assert found["cancels_requested_total"].keys() == {str(source) for source in CancelSource}
        assert found["residual_work"]["tool"] == 1
        assert found["residual_workers"] >= 1
        assert found["late_work_total"]["tool"] == 0
        gate.open()
        assert run.wait_terminated(PATIENCE)
        until(lambda: some(runner.metrics()["cancels_terminated_total"]) == {"caller": 1})
        found = runner.metrics()
        assert some(found["cancel_race_winners_total"]) == {"cancelled": 1}
        assert some(found["residual_work"]) == {}
        assert some(found["late_work_total"]) == {"tool": 1}
        report = run.cancel_report
        assert report is not None
        assert report.acknowledged is not None
        assert report.terminated is not None
        acknowledged = report.acknowledged - report.requested
        terminated = report.terminated - report.requested
        assert found["cancel_acknowledge_seconds"]["sum"] == pytest.approx(acknowledged)
        assert found["cancel_release_seconds"]["sum"] == pytest.approx(acknowledged)
        assert found["cancel_terminate_seconds"]["sum"] == pytest.approx(terminated)


def test_a_cancel_that_comes_too_late_is_counted_with_the_end_that_has_won() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        gate = log.hold("run_ended")
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert run.cancel("too late").already_ending
        gate.open()
        assert run.answer(PATIENCE) == "ok"
        found = runner.metrics()
        assert some(found["cancel_race_winners_total"]) == {"completed": 1}
        assert found["cancel_acknowledge_seconds"]["count"] == 1
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
        done = runner.run(**KEY, message="hi")
        assert done.answer(PATIENCE) == "ok"
        assert done.cancel().already_ended
        found = runner.metrics()
    for step in ("requested", "acknowledged", "terminated"):
        assert some(found[f"cancels_{step}_total"]) == {"caller": 1}
    assert some(found["cancel_race_winners_total"]) == {"completed": 1}


def test_the_time_until_a_session_is_released_includes_what_it_is_held_for(gate: Gate) -> None:
    def stubborn() -> None:
        gate.wait()

    model = ScriptedModel(calls(("stubborn", {})))
    config = RunConfig(residual="hold", grace=PATIENCE)
    with Runner(app_with(model, stubborn), log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        run.result(PATIENCE)
        found = runner.metrics()
        assert (found["sessions_held"], found["cancel_release_seconds"]["count"]) == (1, 0)
        gate.open()
        until(lambda: runner.metrics()["cancel_release_seconds"]["count"] == 1)
        found = runner.metrics()
        assert found["sessions_held"] == 0
        assert found["cancel_release_seconds"]["sum"] > found["cancel_acknowledge_seconds"]["sum"]


def test_forty_hooks_that_never_return_and_those_that_found_no_room_are_counted(gate: Gate) -> None:
    def hooked(tool_context: ToolContext) -> None:
        for _ in range(256 + 40):
            tool_context.cancellation.on_cancel(gate.wait)
        ready.set()
        tool_context.cancellation.wait()

    ready = threading.Event()
    with Runner(app_with(ScriptedModel(calls(("hooked", {}))), hooked), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert ready.wait(PATIENCE)
        run.cancel()
        until(lambda: runner.metrics()["hooks_rejected_total"]["cancel"] == 40)
        found = runner.metrics()
        assert some(found["forced_escalations_total"]) == {Force.HOOK_REJECTED: 40}
        assert found["residual_work"]["hook"] == 256
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert runner.metrics()["residual_work"]["hook"] == 0


def test_hooks_and_callbacks_that_raise_are_counted_by_their_kind() -> None:
    def raising(*_: object) -> None:
        raise RuntimeError("of no use")

    def hooked(tool_context: ToolContext) -> None:
        tool_context.cancellation.on_cancel(raising)
        ready.set()
        tool_context.cancellation.wait()

    ready = threading.Event()
    agent = LlmAgent("agent", ScriptedModel(calls(("hooked", {}))), tools=[hooked])
    with Runner(app_plugged(agent, plugin(on_run_end=raising)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.subscribe(lambda _: None, on_finally=raising)
        assert ready.wait(PATIENCE)
        run.cancel()
        wanted = {"cancel": 1, "plugin": 1, "subscriber": 1}
        until(lambda: runner.metrics()["hooks_failed_total"] == wanted)


def test_what_is_under_way_waits_and_is_in_memory_is_told(gate: Gate) -> None:
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(3600)

    begun = threading.Event()
    with Runner(app_with(ScriptedModel(default=calls(("slow", {}))), slow), log=MemoryEventLog()) as runner:
        runs = [runner.run(**KEY, message="hi").start() for _ in range(3)]
        assert begun.wait(PATIENCE)
        found = runner.metrics()
        assert (found["runs_active"], found["runs_queued"], found["sessions_active"]) == (1, 2, 1)
        assert (found["async_calls"], found["mailbox_messages"]) == (1, 0)
        assert found["handoffs_total"]["actors"] > 0
        before = found["handoffs_total"]["workers"]
        assert before > 0
        for run in reversed(runs):
            run.cancel()
            run.result(PATIENCE)
        until(lambda: runner.metrics()["async_calls"] == 0)
        assert runner.metrics()["workers_peak"] >= 1


def test_messages_that_an_actor_has_not_come_to_are_counted() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        services = runner._services  # pyright: ignore[reportPrivateUsage]  # its only thread is to be held

        class Holding:
            def activate(self) -> None:
                gate.wait()

        services.dispatcher.schedule(Holding())
        gate.arrived()
        run = runner.run(**KEY, message="hi")
        run.begin()
        assert runner.metrics()["mailbox_messages"] == 1
        gate.open()
        assert run.answer(PATIENCE) == "ok"
        assert runner.metrics()["mailbox_messages"] == 0


def test_a_run_that_gets_no_worker_is_counted_as_refused_and_as_an_overload(gate: Gate) -> None:
    def stuck() -> None:
        gate.wait()

    clock = ManualClock()
    app = app_with(ScriptedModel(default=calls(("stuck", {}))), stuck)
    with Runner(app, log=MemoryEventLog(), workers=1, worker_wait=1, clock=clock) as runner:
        first = runner.run(**KEY, message="hi").start()
        gate.arrived()
        second = runner.run(user_id="u", session_id="2", message="hi").start()
        until(lambda: runner.metrics()["workers_waiting"] == 1)
        clock.advance(1)
        second.result(PATIENCE)
        found = runner.metrics()
        assert found["workers_refused_total"] == 1
        assert found["workers_peak"] >= found["workers_busy"] >= 1
        assert some(found["cancels_acknowledged_total"]) == {"overload": 1}
        first.cancel()


def test_a_loop_that_an_async_tool_blocks_is_counted(gate: Gate) -> None:
    async def blocks() -> None:
        gate.wait()

    clock = ManualClock()
    app = app_with(ScriptedModel(calls(("blocks", {})), default="ok"), blocks)
    with Runner(app, log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        for _ in range(3):
            clock.advance(1)
        until(lambda: runner.metrics()["async_loops_blocked_total"] == 1)
        gate.open()
        assert run.answer(PATIENCE) == "ok"


def test_what_an_agent_as_a_tool_leaves_behind_is_counted_with_the_outer_runner(gate: Gate) -> None:
    @tool(timeout=0.2)
    def stubborn(tool_context: ToolContext) -> None:
        tool_context.cancellation.escalate(Force.TERMINATED, "process 7")
        gate.wait()

    inner = LlmAgent("inner", ScriptedModel(calls(("stubborn", {})), default="ok"), tools=[stubborn])
    outer = ScriptedModel(calls(("inner", {"request": "go"})), default="ok")
    app = app_of(LlmAgent("outer", outer, tools=[AgentTool(inner)]))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert run.answer(PATIENCE) == "ok"
        assert runner.metrics()["residual_work"]["tool"] == 1
        gate.open()
        assert run.wait_terminated(PATIENCE)
        found = runner.metrics()
        assert found["late_work_total"]["tool"] == 1
        assert some(found["forced_escalations_total"]) == {"terminated": 1}


LOGS: dict[str, Callable[[Any], Any]] = {
    "memory": lambda path: MemoryEventLog(),
    "lmdb": lambda path: LmdbEventLog(path / "log"),
}


@pytest.mark.parametrize("kind", LOGS)
def test_all_of_it_is_plain_and_stands_in_the_documentation(kind: str, tmp_path: Any) -> None:
    with LOGS[kind](tmp_path) as log, Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        before = shape(runner.metrics())
        for number in range(20):
            runner.run(user_id=f"user {number}", session_id=str(number), message="hi").answer(PATIENCE)
        found = runner.metrics()
        assert shape(found) == before  # no label comes from what users say
    assert json.loads(json.dumps(found)) == found
    rows = re.findall(r"^\| `([a-z_]+)`", read(Path("docs/metrics.md")), re.MULTILINE)
    assert rows == list(found)


def shape(found: Mapping[str, Any]) -> dict[str, Any]:
    """The names and labels, without the numbers."""
    return {name: list(value) if hasattr(value, "keys") else None for name, value in found.items()}


def test_a_log_that_counts_nothing_is_no_trouble() -> None:
    class Silent(MemoryEventLog):
        metrics = None  # type: ignore[assignment]  # a log of somebody's own has no such method

    with Runner(app_with(ScriptedModel(default="ok")), log=Silent()) as runner:
        assert not any(name.startswith("log_") for name in runner.metrics())


def test_what_is_counted_adds_up_over_many_runs() -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        for number in range(300):
            runner.run(user_id="u", session_id=str(number), message="hi").answer(PATIENCE)
        found = runner.metrics()
        assert (found["sessions_active"], found["runs_ended_total"]["completed"]) == (300, 300)
        assert found["log_commits_total"] == found["log_appends_total"] == 600
