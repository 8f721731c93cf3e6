"""`BaseAgent`, what every agent is, and `AgentContext`, what an agent knows of its run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from intermission.actions import Actions
from intermission.agents.callbacks import Callbacks, as_callbacks
from intermission.agents.effects import Steps
from intermission.config import RunConfig
from intermission.events import Event, OpenEvent, new_event_id
from intermission.kernel.clock import Clock
from intermission.kernel.scope import CancelScope
from intermission.state import State

__all__ = ["AgentContext", "BaseAgent", "CallbackContext", "check_name"]


def check_name(what: str, name: str) -> None:
    """Refuse a name that ADK's clients could not take.

    Raises:
        ValueError: It is no identifier of letters, digits and underscores, or it is `"user"`.
    """
    if not (name.isidentifier() and name.isascii()) or name == "user":
        raise ValueError(
            f"{what} {name!r} must be an identifier (letters, digits, underscores; no digit first) "
            "and not 'user', which names the person"
        )


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
        callback_data: What callbacks and plugins leave for each other: one for all agents of the run. It
            ends with the run, and is not stored.
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
    callback_data: dict[str, Any] = field(default_factory=dict[str, Any])

    def event(self, author: str, **fields: Any) -> Event:
        """Return a new event of this run and branch, stamped now; `fields` are those of `Event`."""
        fields.setdefault("branch", self.branch)
        name = fields.pop("id", None) or new_event_id()
        return OpenEvent(name, self.invocation_id, author, self.clock.time(), **fields).freeze()


CallbackContext: TypeAlias = AgentContext
"""What callbacks are given: what the agent itself knows, its state to be changed included."""


class BaseAgent:
    """An agent: a name, and `run`, a generator of effects.

    Args:
        name: An identifier; not `"user"`.
        description: What the agent is for, in a line.
        before_agent_callback: Asked before the agent; content that one returns is the answer in its place.
        after_agent_callback: Asked after it; content that one returns is one more answer.

    Raises:
        ValueError: The name cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        before_agent_callback: Callbacks = None,
        after_agent_callback: Callbacks = None,
    ) -> None:
        check_name("agent name", name)
        self.name = name
        self.description = description
        self.before_agent_callbacks = as_callbacks("before_agent_callback", before_agent_callback)
        self.after_agent_callbacks = as_callbacks("after_agent_callback", after_agent_callback)

    def run(self, context: AgentContext) -> Steps:
        """Yield effects, one at a time; each is done, and its answer sent in, before the next is asked for.

        Called on the run's thread. An error of an effect is raised at its `yield`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define run()")
