"""`Consumers`: who consumes a run, and what becomes of the run when the last of them is gone."""

import threading
from typing import TYPE_CHECKING

from intermission.config import OnConsumerLost
from intermission.runs.result import CancelSource

if TYPE_CHECKING:
    from intermission.runs.lifecycle import Lifecycle

__all__ = ["Consumers", "Lost"]


class Consumers:
    """Counts the consumers of one run. A run that was started with none belongs to nobody."""

    __slots__ = ("_count", "_lock", "_run", "detached")

    def __init__(self, run: "Lifecycle") -> None:
        self._run = run
        self._lock = threading.RLock()
        self._count = 0
        self.detached = False

    def enter(self) -> None:
        """One more."""
        with self._lock:
            self._count += 1

    def leave(self, *, lost: bool) -> None:
        """One less; it is `lost` if it did not get what it came for."""
        with self._lock:
            self._count -= 1
            gone = lost and self._count == 0 and not self.detached
        run = self._run
        if gone and run.result is None and run.config.on_consumer_lost == OnConsumerLost.CANCEL:
            run.cancel(CancelSource.CONSUMER_LOST, "nobody consumes the run any more")

    def leave_later(self) -> None:
        """As `leave(lost=True)`, on a thread of the dispatcher; takes no lock, so that a finaliser may call it."""
        self._run.services.dispatcher.schedule(Lost(self))


class Lost:
    """A consumer whose finaliser has run."""

    __slots__ = ("_consumers",)

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

    def activate(self) -> None:
        """Take it off the count."""
        self._consumers.leave(lost=True)
