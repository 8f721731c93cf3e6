"""Calls that waited when the agents around them ended without them."""

import pytest

from apps import KEY
from intermission import (
    BaseAgent,
    FunctionTool,
    LoopAgent,
    ParallelAgent,
    RunStatus,
    SequentialAgent,
    ToolContext,
    UnknownCallError,
    exit_loop,
)
from intermission.testing import calls
from intermission_storage import MemoryEventLog
from pausing import ASK, Story, asking, llm, waiting


def _leaves(tool: str, rounds: int) -> BaseAgent:
    """A loop in which one agent waits and another, beside it, escalates; then an agent that asks."""
    waits = (asking if tool == "ask" else waiting)("waits")
    leaves = llm("leaves", *[calls(("exit_loop", {}))] * rounds, tools=[exit_loop])
    both = ParallelAgent("both", sub_agents=[waits, leaves])
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
