"""`on_residual_end`: what comes of work that its run has gone on or ended without."""

import asyncio
import threading

import pytest

from apps import KEY, records
from async_gates import AsyncGate
from hooks import BOTH_KINDS, app_plugged, plugin
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    LlmAgent,
    ResidualOutcome,
    ResidualWork,
    Runner,
    ToolContext,
)
from intermission.agents.effects import Steps
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog


@BOTH_KINDS
def test_what_comes_of_residual_work_is_told_when_it_has_really_ended_and_nothing_of_it_is_stored(
    kind: str,
) -> None:
    gate, told, log = Gate(), threading.Event(), MemoryEventLog()
    found: list[tuple[ResidualWork, ResidualOutcome]] = []

    def work() -> str:
        gate.wait()
        return "late"

    def ended(one: ResidualWork, outcome: ResidualOutcome) -> None:
        found.append((one, outcome))
        told.set()

    agent = LlmAgent("agent", ScriptedModel(calls(("work", {}))), tools=[work])
    with Runner(app_plugged(agent, plugin("plugin", kind, on_residual_end=ended)), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel("enough")
        run.result()
        (listed,) = [one for one in runner.residual() if one.what == "tool"]
        before = records(log)
        assert found == []
        gate.open()
        assert told.wait(30)
        assert run.wait_terminated(30)
    ((one, outcome),) = found
    assert (one.call_id, one.name, one.invocation_id, one.reason) == (
        listed.call_id,
        "work",
        run.invocation_id,
        "enough",
    )
    assert outcome == ResidualOutcome({"result": "late"})
    assert records(log) == before


@pytest.mark.parametrize("cancelled", [True, False])
def test_an_async_call_and_a_model_that_are_given_up_are_told_too_and_a_call_in_time_is_not(
    cancelled: bool,
) -> None:
    found: list[tuple[str, ResidualOutcome]] = []
    gate, told = Gate(), threading.Event()

    def ended(one: ResidualWork, outcome: ResidualOutcome) -> None:
        found.append((one.what, outcome))
        told.set()

    agent = LlmAgent("agent", ScriptedModel(text("a", gate, "b")))
    with Runner(app_plugged(agent, plugin(on_residual_end=ended)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        if cancelled:
            run.cancel()
            run.result()
        gate.open()
        run.result()
        assert run.wait_terminated(30)
        assert told.wait(30) if cancelled else True
    assert [what for what, _ in found] == (["model"] if cancelled else [])


def test_an_async_tool_that_swallows_its_cancel_is_told_when_it_returns() -> None:
    found, told, begun = list[ResidualOutcome](), threading.Event(), threading.Event()
    gate = AsyncGate()

    async def stubborn(tool_context: ToolContext) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await gate.wait()
        return "in the end"

    def ended(one: ResidualWork, outcome: ResidualOutcome) -> None:
        found.append(outcome)
        told.set()

    agent = LlmAgent("agent", ScriptedModel(calls(("stubborn", {}))), tools=[stubborn])
    with Runner(app_plugged(agent, plugin(on_residual_end=ended)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(30)
        run.cancel()
        run.result()
        gate.open()
        assert told.wait(30)
    assert found == [ResidualOutcome({"result": "in the end"})]


def test_neither_a_hook_on_a_cancel_nor_an_agent_in_its_own_generator_is_told() -> None:
    found, gate, hooked = list[ResidualWork](), Gate(), threading.Event()

    class Computing(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            context.cancellation.on_cancel(hooked.set)
            gate.wait()
            yield context.event(self.name, content=Content.model("never"))

    def ended(one: ResidualWork, outcome: ResidualOutcome) -> None:
        found.append(one)

    app = app_plugged(Computing("computing"), plugin(on_residual_end=ended))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        run.result()
        assert "agent" in [one.what for one in runner.residual()]
        gate.open()
        assert hooked.wait(30)
        assert run.wait_terminated(30)
    assert found == []
