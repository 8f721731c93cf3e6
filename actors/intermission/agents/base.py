"""`BaseAgent`, what every agent is, and `AgentContext`, what an agent knows of its run."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from intermission.actions import Actions
from intermission.agents.callbacks import OneOrMore, as_callbacks
from intermission.agents.contents import Conversations
from intermission.agents.effects import Steps
from intermission.agents.progress import AgentState, Checkpoint, Making
from intermission.config import RunConfig
from intermission.content import Content
from intermission.events import Event, OpenEvent, new_event_id
from intermission.kernel.clock import Clock
from intermission.kernel.scope import CancelScope
from intermission.state import State

__all__ = ["AgentCallback", "AgentContext", "BaseAgent", "CallbackContext", "check_list", "check_name"]


def check_name(what: str, name: object) -> None:
    """Refuse a name that ADK's clients could not take.

    Raises:
        TypeError: It is no text.
        ValueError: It is no identifier of letters, digits and underscores, or it is `"user"`.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {name!r}")
    if not (name.isidentifier() and name.isascii()) or name == "user":
        raise ValueError(
            f"{what} {name!r} must be an identifier (letters, digits, underscores; no digit first) "
            "and not 'user', which names the person"
        )


def check_list(what: str, given: object) -> None:
    """Refuse what no type checker has kept from standing for a list.

    Raises:
        TypeError: It is none.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list, not {given!r}")


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What an agent knows of the run that it serves.

    Attributes:
        invocation_id: The run.
        user_id: The session's user.
        session_id: The session.
        config: The run's settings.
        events: The session's events so far, oldest first, this run's own among them as they are stored.
        clock: The run's time.
        state: The session's state. What the agent changes travels with its next event that is stored.
        cancellation: Cancelled when the run is; an agent that does long work between two effects looks at it.
        actions: What the agent asks for beside; it travels with its next event that is stored.
        branch: Names of the parallel branches that the agent is on, joined by dots; `None` on none.
        outcomes: What the log knows of the session's calls that began and that no event answers, by their
            ids: the response, or `"not_started"`, `"stopped"` or `"unknown"`. `None` if nothing is known.
        makings: When those calls were made last, and what they have left, by their ids.
        callback_data: What callbacks and plugins leave for each other: one for all agents of the run. It
            ends with the run, and is not stored.
        root: The app's root agent; `None` outside of a run.
        resumable: Whether the app keeps what is needed to go on with its runs.
        pauses: Whether its runs end where a call waits for an answer from outside.
        agent_state: What the agent keeps of its own progress. In a run that is gone on with, it holds what
            the agent had stored.
        saved: How far the agent had come in a run that is gone on with; `None` if it begins.
        agent_name: Whose context it is: the agent that was run, and not one that this yields from.
        conversations: What models were shown in this run, so that a request costs what is new in it.
    """

    invocation_id: str
    user_id: str
    session_id: str
    config: RunConfig
    events: Sequence[Event]
    clock: Clock
    state: State
    cancellation: CancelScope
    actions: Actions = field(default_factory=Actions)
    branch: str | None = None
    outcomes: Mapping[str, str | Mapping[str, Any]] | None = None
    callback_data: dict[str, Any] = field(default_factory=dict[str, Any])
    root: "BaseAgent | None" = None
    resumable: bool = False
    pauses: bool = False
    agent_state: AgentState = field(default_factory=AgentState)
    saved: Checkpoint | None = None
    agent_name: str = ""
    makings: Mapping[str, Making] | None = None
    conversations: Conversations = field(default_factory=Conversations)

    def event(self, author: str, **fields: Any) -> Event:
        """Return a new event of this run and branch, stamped now; `fields` are those of `Event`."""
        fields.setdefault("branch", self.branch)
        name = fields.pop("id", None) or new_event_id()
        return OpenEvent(name, self.invocation_id, author, self.clock.time(), **fields).freeze()


CallbackContext: TypeAlias = AgentContext
"""What callbacks are given: what the agent itself knows, its state to be changed included."""

AgentCallback: TypeAlias = Callable[[CallbackContext], Content | Awaitable[Content | None] | None]
"""Asked before or after an agent: a function, plain or async, of the context."""


class BaseAgent:
    """An agent: a name, and `run`, a generator of effects.

    Args:
        name: An identifier; not `"user"`.
        description: What the agent is for, in a line; agents that may hand over to it are told.
        sub_agents: The agents below it. An agent has one parent.
        before_agent_callback: Asked before the agent; content that one returns is the answer in its place.
        after_agent_callback: Asked after it; content that one returns is one more answer.

    Raises:
        ValueError: The name cannot be used, two sub-agents share one, or a sub-agent has a parent already.

    Attributes:
        sub_agents: The agents below it.
        parent: The agent above it; `None` for the root of a tree.
        ends_on_escalation: Whether an agent below that escalates ends what this one runs, as in a loop; the
            answer of the effect that runs it is then `Ended.ESCALATED`.
    """

    sub_agents: "tuple[BaseAgent, ...]" = ()
    parent: "BaseAgent | None" = None
    ends_on_escalation = False

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        sub_agents: "Sequence[BaseAgent]" = (),
        before_agent_callback: OneOrMore[AgentCallback] = None,
        after_agent_callback: OneOrMore[AgentCallback] = None,
    ) -> None:
        check_name("agent name", name)
        self.name = name
        self.description = description
        check_list(f"sub_agents of {name!r}", sub_agents)
        if sub_agents:
            self._adopt(tuple(sub_agents))
        self.before_agent_callbacks = as_callbacks("before_agent_callback", before_agent_callback)
        self.after_agent_callbacks = as_callbacks("after_agent_callback", after_agent_callback)

    def run(self, context: AgentContext) -> Steps:
        """Yield effects, one at a time; each is done, and its answer sent in, before the next is asked for.

        Called on the run's thread. An error of an effect is raised at its `yield`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define run()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def root_agent(self) -> "BaseAgent":
        """The root of the tree that it stands in."""
        agent = self
        while agent.parent is not None:
            agent = agent.parent
        return agent

    def find_agent(self, name: str) -> "BaseAgent | None":
        """Return the first agent of that name among this one and all below it; `None` if none has it."""
        if self.name == name:
            return self
        for agent in self.sub_agents:
            found = agent.find_agent(name)
            if found is not None:
                return found
        return None

    def _adopt(self, agents: "tuple[BaseAgent, ...]") -> None:
        names = set[str]()
        for agent in agents:
            if not isinstance(agent, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
                raise TypeError(f"sub_agents of {self.name!r} must be agents, not {agent!r}")
            if agent.parent is not None:
                raise ValueError(
                    f"agent {agent.name!r} cannot be a sub-agent of {self.name!r}: it is one of "
                    f"{agent.parent.name!r} already, and an agent has one parent"
                )
            if agent.name in names:
                raise ValueError(f"two sub-agents of {self.name!r} are named {agent.name!r}")
            names.add(agent.name)
        for agent in agents:
            agent.parent = self
        self.sub_agents = agents
