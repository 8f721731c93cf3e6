"""What a run's strands say to their session, and what subscribers of an actor system are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from intermission.events import Event
from intermission.kernel.mailbox import Lane
from intermission.kernel.promise import Promise
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import RunResult
from intermission_storage import Record

__all__ = ["AgentDone", "Append", "Begin", "EventStored", "Item", "RunEnded", "RunStarted"]

Item: TypeAlias = Record | Event
"""What is stored: a record, or an event, which is shown, too."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """To subscribers of a system: a run's beginning is stored."""

    user_id: str
    session_id: str
    invocation_id: str


@dataclass(frozen=True, slots=True)
class EventStored:
    """To subscribers of a system: an event is stored."""

    user_id: str
    session_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class RunEnded:
    """To subscribers of a system: a run has ended."""

    user_id: str
    session_id: str
    result: RunResult


@dataclass(frozen=True, slots=True)
class Begin:
    """Session → agent: the run is durable, drive it."""

    lane: ClassVar[Lane] = Lane.INTERNAL


@dataclass(slots=True)
class Append:
    """Strand → session: store this, show the event, then answer.

    An append of a run that is over is answered with `RunOver`.

    Attributes:
        run: The run.
        event: What is to be shown, if anything is.
        before: What comes before the event.
        after: What comes after it.
        stored: Is kept with the event as it was stored; `None` if nobody waits.
        last: The run ends with it.
        opening: The event is the user's, and nobody is shown it; with it the run is admitted.
    """

    lane: ClassVar[Lane] = Lane.INTERNAL
    run: Lifecycle
    event: Event | None
    stored: Promise[Event | None] | None
    before: Sequence[Item] = ()
    after: Sequence[Item] = ()
    last: bool = False
    opening: bool = False


@dataclass(slots=True)
class AgentDone:
    """Strand → session: the root agent came to its end.

    Attributes:
        run: The run.
        error: What ended it.
        stopped: The reason, if it ended because a stop was asked for.
        before: What is still to be stored.
        paused: Whether it came to no end, for a call waits for an answer from outside.
    """

    lane: ClassVar[Lane] = Lane.INTERNAL
    run: Lifecycle
    error: Exception | None = None
    stopped: str | None = None
    before: Sequence[Item] = ()
    paused: bool = False
