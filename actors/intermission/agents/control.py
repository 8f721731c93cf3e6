"""Tools with which a model says who goes on: `exit_loop` and `transfer_to_agent`."""

from typing import Any

from intermission.tools.base import ToolContext

__all__ = ["exit_loop", "transfer_to_agent"]


def exit_loop(tool_context: ToolContext) -> dict[str, Any]:
    """End the loop. Call this only when its work is done."""
    tool_context.actions.escalate = True
    tool_context.actions.skip_summarization = True
    return {}


def transfer_to_agent(agent_name: str, tool_context: ToolContext) -> dict[str, Any]:
    """Hand the conversation over to another agent, which then answers in your place."""
    tool_context.actions.transfer_to_agent = agent_name
    return {}
