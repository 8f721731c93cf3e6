"""The messages between a session's actor and the actor of its run."""

from dataclasses import dataclass

from intermission.events import Event
from intermission.kernel.promise import Promise

__all__ = ["AgentDone", "Append", "Begin"]


@dataclass(frozen=True, slots=True)
class Begin:
    """Session → agent: the run is durable, drive it."""


@dataclass(frozen=True, slots=True)
class Append:
    """Agent → session: store this event, show it, then answer with the stored one.

    An append of a run that is over is answered with `RunOver`.
    """

    invocation_id: str
    event: Event
    stored: Promise[Event]


@dataclass(frozen=True, slots=True)
class AgentDone:
    """Agent → session: the root agent came to its end, or `error` ended it."""

    invocation_id: str
    error: Exception | None
