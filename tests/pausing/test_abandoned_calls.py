"""Calls that waited when the agents around them ended without them."""

import pytest

from apps import KEY
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    EventActions,
    FunctionTool,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunStatus,
    SequentialAgent,
    ToolContext,
    UnknownCallError,
)
from intermission.agents.effects import Call, Steps
from intermission.testing import Gate, calls
from intermission_storage import MemoryEventLog
from pausing import ASK, WAIT, Story, asking, llm


class Waiting(LlmAgent):
    """Opens a gate when it has been left, as by a pause."""

    left: Gate

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            yield from super().run(context)
        finally:
            self.left.open()


class Leaving(BaseAgent):
    """Escalates when a gate is open."""

    def __init__(self, gate: Gate) -> None:
        super().__init__("leaves")
        self.gate = gate

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield Call(self.gate.wait)
        yield context.event(self.name, content=Content.model("off"), actions=EventActions(escalate=True))


def _leaves(tool: str, rounds: int) -> BaseAgent:
    """A loop in which an agent waits, then another one, beside it, escalates; behind it one that asks."""
    waits = Waiting("waits", llm("x", calls((tool, {}))).model, tools=[ASK, WAIT])
    waits.left = Gate()
    both = ParallelAgent("both", sub_agents=[waits, Leaving(waits.left)])
    return SequentialAgent(
        "seq", sub_agents=[LoopAgent("loop", max_iterations=rounds, sub_agents=[both]), asking("after")]
    )


@pytest.mark.parametrize("tool", ["ask", "wait"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_call_beside_which_an_agent_escalated_waits_no_more_while_its_run_goes_on(
    tool: str, rounds: int
) -> None:
    log, agent = MemoryEventLog(), _leaves(tool, rounds)
    with Story(agent, log) as story:
        story.say()
        assert story.result.status is RunStatus.PAUSED
        (call,) = story.result.pending
        assert call.agent == "after"
        assert story.pending == [call]
        first = next(
            call for event in story.events if event.author == "waits" for call in event.function_calls
        )
        late = story.runner.resume(**KEY, answers={first.id: {"confirmed": True}})
        assert "escalated" in story.refused(UnknownCallError, late)
    with Story(agent, log) as story:
        assert story.pending == [call]
        story.answer(call)
        assert story.result.status is RunStatus.COMPLETED


def test_a_call_of_a_run_that_was_stopped_takes_no_answer_and_no_other_way_is_named() -> None:
    def leave(tool_context: ToolContext) -> None:
        tool_context.stop("enough")

    with Story(llm("asks", calls(("ask", {}), ("leave", {})), tools=[ASK, FunctionTool(leave)])) as story:
        story.say()
        assert story.result.status is RunStatus.STOPPED
        first = next(call for event in story.events for call in event.function_calls)
        late = story.runner.resume(**KEY, answers={first.id: {"confirmed": True}})
        said = story.refused(UnknownCallError, late)
        assert "ended stopped" in said
        assert "goes on with it" not in said
        assert story.go_on() == []
