"""What the directory, the log and workers say to a session's actor; what strands say is `runs.messages`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from intermission.kernel.mailbox import Lane
from intermission.runs.lifecycle import Lifecycle
from intermission.sessions.batch import Batch
from intermission.sessions.current import CurrentRun
from intermission.sessions.view import SessionView
from intermission_storage import Appended, IndexEntry, Record, StorageError

__all__ = [
    "Delete",
    "Deleted",
    "EndDelivered",
    "EndLeft",
    "Forget",
    "HoldOver",
    "Loaded",
    "LookAtSlot",
    "Passivate",
    "QueueRun",
    "Retire",
    "SetState",
    "Stored",
]


@dataclass(slots=True)
class QueueRun:
    """Run this, after the runs that came before."""

    run: Lifecycle


@dataclass(slots=True)
class LookAtSlot:
    """A run's slot was written: end the run by what it says, if that is not under way."""

    lane: ClassVar[Lane] = Lane.CONTROL
    run: Lifecycle


@dataclass(slots=True)
class Retire:
    """Take no more runs, refuse those that wait, and call `idle` when none is under way."""

    lane: ClassVar[Lane] = Lane.CONTROL
    idle: Callable[[], None]


@dataclass(slots=True)
class Passivate:
    """Leave memory, if there is nothing to do."""


@dataclass(slots=True)
class Forget:
    """Let go of events and state, if there is nothing to do: the next run reads them."""


@dataclass(slots=True)
class HoldOver:
    """What the last run has left behind has ended, or was waited for long enough."""

    lane: ClassVar[Lane] = Lane.INTERNAL


@dataclass(slots=True)
class SetState:
    """Change the session's state, and call `done` with what came of it.

    With no run under way it is a `ConflictError` if the session does not end at `position` any more.
    """

    delta: Mapping[str, Any]
    done: Callable[[BaseException | None], None]
    position: int


@dataclass(slots=True)
class EndDelivered:
    """Plugins were told of a run's end: store that, take the entry away, call `done` as for `SetState`."""

    invocation_id: str
    entry: IndexEntry
    done: Callable[[BaseException | None], None]
    position: int


@dataclass(slots=True)
class EndLeft:
    """Store the end of a run that is not under way, and change indexes; call `done` as for `SetState`.

    If it is under way by now, that is a `ConflictError`, too.
    """

    invocation_id: str
    records: Sequence[Record]
    put: Sequence[IndexEntry]
    drop: Sequence[IndexEntry]
    done: Callable[[BaseException | None], None]
    position: int


@dataclass(slots=True)
class Delete:
    """End what is under way, refuse what waits, delete the session, then call `done`."""

    lane: ClassVar[Lane] = Lane.CONTROL
    take_over: bool
    done: Callable[[bool | BaseException], None]


@dataclass(slots=True)
class Loaded:
    """A worker has read the session for a run, or could not."""

    lane: ClassVar[Lane] = Lane.INTERNAL
    current: CurrentRun
    view: SessionView | None
    error: BaseException | None = None


@dataclass(slots=True)
class Deleted:
    """A worker has deleted the session, or could not."""

    lane: ClassVar[Lane] = Lane.INTERNAL
    outcome: bool | BaseException


@dataclass(slots=True)
class Stored:
    """The log has committed a batch, or refused it."""

    lane: ClassVar[Lane] = Lane.INTERNAL
    batch: Batch
    outcome: Appended | StorageError
