"""Work that outlives its run in a call of another run: it is the outer run's, too."""

import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_of
from hooks import app_plugged, plugin
from intermission import (
    AgentTool,
    Force,
    LlmAgent,
    ResidualOutcome,
    ResidualWork,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    tool,
)
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def nested(gate: Gate, *, include_plugins: bool = True) -> LlmAgent:
    """An agent whose tool is an agent whose tool stays at the gate for longer than it may."""

    @tool(timeout=1)
    def stubborn() -> str:
        gate.wait()
        return "late"

    inner = LlmAgent("inner", ScriptedModel(calls(("stubborn", {})), default="inner"), tools=[stubborn])
    asked = AgentTool(inner, include_plugins=include_plugins)
    outer = ScriptedModel(calls(("inner", {"request": "do it"})), default="outer")
    return LlmAgent("outer", outer, tools=[asked])


def left(runner: Runner) -> list[ResidualWork]:
    """The tools that are residual work."""
    return [work for work in runner.residual() if work.what == "tool"]


def test_a_tool_that_outlives_the_agent_that_a_tool_has_run_is_residual_work_of_the_outer_run(
    gate: Gate,
) -> None:
    # The runner of the inner agent has the machine's clock: its tool may take a second.
    with Runner(app_of(nested(gate)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert run.answer(PATIENCE) == "outer"
        (work,) = left(runner)
        assert (work.name, work.session_id, work.invocation_id) == ("stubborn", "s", run.invocation_id)
        assert work.reason == "it took longer than 1 s"
        assert not run.wait_terminated(0)
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert left(runner) == []


@pytest.mark.parametrize("include_plugins", [True, False])
def test_what_comes_of_it_is_told_once_to_plugins_that_see_the_agents_run(
    gate: Gate, include_plugins: bool
) -> None:
    found, told = list[tuple[str, ResidualOutcome]](), threading.Event()

    def ended(one: ResidualWork, outcome: ResidualOutcome) -> None:
        found.append((one.name, outcome))
        told.set()

    app = app_plugged(nested(gate, include_plugins=include_plugins), plugin(on_residual_end=ended))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert run.answer(PATIENCE) == "outer"
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert told.wait(PATIENCE) if include_plugins else True
    assert found == ([("stubborn", ResidualOutcome({"result": "late"}))] if include_plugins else [])


def test_it_holds_the_outer_session(gate: Gate) -> None:
    config = RunConfig(residual="hold", grace=PATIENCE)
    with Runner(app_of(nested(gate)), log=MemoryEventLog(), config=config) as runner:
        runner.run(**KEY, message="hi").answer(PATIENCE)
        second = runner.run(**KEY, message="again").start()
        assert second.state == "queued"
        gate.open()
        assert second.answer(PATIENCE) == "outer"


def test_what_a_run_in_a_call_leaves_behind_is_listed_once_as_its_own_and_terminates_the_outer_one(
    gate: Gate,
) -> None:
    def asks() -> str:
        return runner.run(user_id="u", session_id="inner", message="hi").answer(PATIENCE)

    @tool(timeout=1)
    def stubborn() -> None:
        gate.wait()

    clock = ManualClock()
    model = ScriptedModel(calls(("asks", {})), calls(("stubborn", {})), default="ok")
    app = app_of(LlmAgent("agent", model, tools=[asks, stubborn]))
    with Runner(app, log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        clock.advance(1)
        assert run.answer(PATIENCE) == "ok"
        assert [(work.name, work.session_id) for work in left(runner)] == [("stubborn", "inner")]
        assert not run.wait_terminated(0)
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert runner.residual() == []


def test_a_run_that_a_call_has_started_and_belongs_to_nobody_is_no_part_of_the_outer_one(gate: Gate) -> None:
    def starts() -> str:
        runner.run(user_id="u", session_id="inner", message="hi").start()
        return "started"

    def stubborn() -> None:
        gate.wait()

    model = ScriptedModel(calls(("starts", {})), default=calls(("stubborn", {})))
    app = app_of(LlmAgent("agent", model, tools=[starts, stubborn]))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived(2)
        outer = run.cancel().still_running
        assert [work.name for work in outer if work.what == "tool"] == ["stubborn"]
        (other,) = runner.active(session_id="inner")
        other.cancel()
        gate.open()
        assert run.wait_terminated(PATIENCE)


def test_force_in_a_run_in_a_call_stands_in_the_reports_of_both() -> None:
    def asks() -> str:
        return inner.answer(PATIENCE)

    def killing(tool_context: ToolContext) -> None:
        begun.set()
        tool_context.cancellation.wait()
        tool_context.cancellation.escalate(Force.KILLED, "process 7")

    begun = threading.Event()
    model = ScriptedModel(calls(("asks", {})), calls(("killing", {})), default="ok")
    app = app_of(LlmAgent("agent", model, tools=[asks, killing]))
    with Runner(app, log=MemoryEventLog()) as runner:
        inner = runner.run(user_id="u", session_id="inner", message="hi")
        outer = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        outer.cancel(wait=True, timeout=PATIENCE)
        until(lambda: inner.status is RunStatus.CANCELLED)
        for run in (outer, inner):
            assert run.cancel_report is not None
            assert [step.force for step in run.cancel_report.escalations] == [Force.KILLED]
