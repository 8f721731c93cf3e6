"""Handing over: which agents a model may transfer to, the tool for it, and what the model is told of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.control import transfer_to_agent
from intermission.errors import AgentNotFoundError
from intermission.events import is_within
from intermission.models.base import ToolDeclaration
from intermission.tools.base import ToolArgumentError, ToolContext

__all__ = ["Place", "TransferTool", "TransferringAgent", "has_answered"]

_TOOL = transfer_to_agent.__name__
_PARAMETER = "agent_name"


class TransferTool:
    """The tool by which a model hands over to one of some agents.

    Args:
        targets: Their names.
    """

    def __init__(self, targets: Mapping[str, BaseAgent]) -> None:
        self._targets = tuple(targets)
        parameter = {"type": "string", "enum": list(targets), "description": "The agent that goes on."}
        schema = {"type": "object", "properties": {_PARAMETER: parameter}, "required": [_PARAMETER]}
        self._declaration = ToolDeclaration(_TOOL, getdoc(transfer_to_agent) or "", schema)

    @property
    def declaration(self) -> ToolDeclaration:
        """See `Tool.declaration`."""
        return self._declaration

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """See `Tool.call`: ask for the transfer, which follows when the response is stored.

        Raises:
            ToolArgumentError: There is no such agent to hand over to.
        """
        name = args.get(_PARAMETER)
        if name not in self._targets:
            raise ToolArgumentError(f"{_PARAMETER} must be one of {', '.join(self._targets)}, not {name!r}")
        return transfer_to_agent(name, context)


@dataclass(frozen=True, slots=True)
class Place:
    """An agent's place in its tree.

    Attributes:
        root: The tree's root, or the agent in it that is the app's.
        targets: The agents that its model may transfer to, by name; of equal names the nearest.
        tool: The tool for it, if there are any.
        instruction: What the model is told of it; `""` if the agent is a tree by itself.
    """

    root: BaseAgent
    targets: Mapping[str, BaseAgent]
    tool: TransferTool | None
    instruction: str


class TransferringAgent(BaseAgent):
    """An agent that may hand over to others of its tree, and be handed back to by its sub-agents.

    Attributes:
        disallow_transfer_to_parent: It may not hand over to its parent, and does not keep the conversation.
        disallow_transfer_to_peers: It may not hand over to its parent's other sub-agents.
    """

    disallow_transfer_to_parent = False
    disallow_transfer_to_peers = False
    _place: Place | None = None

    def place_in(self, context: AgentContext) -> Place:
        """Return where it stands: in the app's tree, if it is in that, and so below nobody above that."""
        place, root = self._place, _top(self, context.root)
        if place is None or place.root is not root:
            self._place = place = _place_of(self, root)
        return place

    def target(self, name: str, place: Place) -> BaseAgent:
        """Return the agent that something was transferred to: one of the targets, or else any of the tree.

        Raises:
            AgentNotFoundError: There is none.
        """
        found = place.targets.get(name) or place.root.find_agent(name)
        if found is None:
            raise AgentNotFoundError(self.name, name)
        return found


def has_answered(context: AgentContext) -> bool:
    """Return whether the agent that was handed over to has ended the turn, so that nobody need go on.

    It has if its last event is final; not if it has left a loop by that.
    """
    for event in reversed(context.events):
        if event.author == "user" or event.is_checkpoint or not is_within(event.branch, context.branch):
            continue
        return event.actions.end_of_agent or (event.is_final and not event.actions.escalate)
    return False


def _top(agent: BaseAgent, root: BaseAgent | None) -> BaseAgent:
    while agent is not root and agent.parent is not None:
        agent = agent.parent
    return agent


def _place_of(agent: TransferringAgent, root: BaseAgent) -> Place:
    if root is agent and not agent.sub_agents:
        return Place(root, {}, None, "")
    parent = None if agent is root else agent.parent
    near = list(agent.sub_agents)
    if isinstance(parent, TransferringAgent):
        if not agent.disallow_transfer_to_parent:
            near.append(parent)
        if not agent.disallow_transfer_to_peers:
            near += [peer for peer in parent.sub_agents if peer is not agent]
    targets: dict[str, BaseAgent] = {}
    for target in near:
        targets.setdefault(target.name, target)
    return Place(root, targets, TransferTool(targets) if targets else None, _instruction(agent, targets))


def _instruction(agent: TransferringAgent, targets: Mapping[str, BaseAgent]) -> str:
    who = f"You are the agent {agent.name}."
    if agent.description:
        who += f" What you are for: {agent.description}"
    if not targets:
        return who
    others = "\n".join(
        f"- {name}: {target.description or '(no description)'}" for name, target in targets.items()
    )
    return (
        f"{who}\n\nThese other agents can take over the conversation:\n{others}\n"
        f"If one of them is better suited to answer, call {_TOOL} with its name and say nothing beside. "
        "Otherwise answer yourself."
    )
