"""`route`: which agent of a tree gets the next message. Pure."""

from collections.abc import Sequence

from intermission.agents.base import BaseAgent
from intermission.agents.transfer import TransferringAgent
from intermission.content import Content
from intermission.events import Event

__all__ = ["route"]


def route(root: BaseAgent, events: Sequence[Event], message: Content | None = None) -> BaseAgent:
    """Return the agent that a run begins with.

    A message that answers a call goes to the agent that called. Any other goes to the agent that spoke last,
    if it keeps the conversation: it and all above it may hand over to their parents. Otherwise to the one
    that spoke before it, and so on; to the root, if there is none.

    Args:
        root: The app's root agent.
        events: The session's events, the user's message last.
        message: The user's message, if it may not be among them yet.
    """
    if not root.sub_agents:
        return root
    caller = _caller(root, events, message or (events[-1].content if events else None))
    if caller is not None:
        return caller
    for event in reversed(events):
        if event.author == "user" or event.is_checkpoint:
            continue
        if event.author == root.name:
            return root
        found = root.find_agent(event.author)
        if found is not None and _keeps(found, root):
            return found
    return root


def _caller(root: BaseAgent, events: Sequence[Event], message: Content | None) -> BaseAgent | None:
    answered = {response.id for response in message.function_responses} if message else set[str]()
    if answered:
        for event in reversed(events):
            if any(call.id in answered for call in event.function_calls):
                return root.find_agent(event.author)
    return None


def _keeps(agent: BaseAgent, root: BaseAgent) -> bool:
    above: BaseAgent | None = agent
    while isinstance(above, TransferringAgent) and not above.disallow_transfer_to_parent:
        if above is root:
            return True
        above = above.parent
    return False
