"""`Batch`: what a session has given to the log, and what it is for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from intermission.events import Event
from intermission.kernel.promise import Promise
from intermission.runs.result import Verdict
from intermission.sessions.current import CurrentRun
from intermission_storage import IndexEntry, Record

__all__ = ["Batch", "Purpose"]


class Purpose(Enum):
    """What a batch is for."""

    BEGIN = auto()
    EVENT = auto()
    END = auto()
    OWED_END = auto()
    STATE = auto()


@dataclass(slots=True)
class Batch:
    """Records on their way.

    Attributes:
        purpose: What they are for.
        records: In order.
        current: The run that they are of, if they are of one.
        events: The events among them.
        event: The one of these that `stored` waits for; without it, that waits for all.
        stored: Waits for it.
        opening: Whether it is the run's user event, with which the run is admitted.
        verdict: How the run ends with them.
        put: Index entries that come with them.
        drop: Index entries that go with them.
        token: The claim under which they are appended.
        done: Called with what came of a change from outside.
    """

    purpose: Purpose
    records: Sequence[Record]
    current: CurrentRun | None = None
    events: Sequence[Event] = ()
    event: Event | None = None
    stored: Promise[Event | None] | None = None
    opening: bool = False
    verdict: Verdict | None = None
    put: Sequence[IndexEntry] = ()
    drop: Sequence[IndexEntry] = ()
    token: int | None = None
    done: Callable[[BaseException | None], None] | None = None
