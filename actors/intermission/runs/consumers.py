"""`Consumers`: who consumes a run, and what becomes of the run when the last of them is gone."""

import threading
from typing import TYPE_CHECKING

from intermission.config import OnConsumerLost
from intermission.runs.result import CancelSource

if TYPE_CHECKING:
    from intermission.runs.lifecycle import Lifecycle

__all__ = ["Consumers", "Lost"]


class Consumers:
    """Who consumes one run. A run that was started with no consumer belongs to nobody.

    A consumer is any object; to come twice, or to go without having come, changes nothing, so that an
    interrupt may hit between any two steps.
    """

    __slots__ = ("_here", "_lock", "_run", "detached")

    def __init__(self, run: "Lifecycle", *, detached: bool = False) -> None:
        self._run = run
        self._lock = threading.RLock()
        self._here: set[object] = set()
        self.detached = detached

    def enter(self, consumer: object) -> None:
        """One more."""
        with self._lock:
            self._here.add(consumer)

    def leave(self, consumer: object, *, lost: bool) -> None:
        """One less; it is `lost` if it did not get what it came for."""
        with self._lock:
            self._here.discard(consumer)
            gone = lost and not self._here and not self.detached
        run = self._run
        if gone and run.result is None and run.config.on_consumer_lost == OnConsumerLost.CANCEL:
            run.cancel(CancelSource.CONSUMER_LOST, "nobody consumes the run any more")

    def leave_later(self, consumer: object) -> None:
        """As `leave(lost=True)`, on a thread of the dispatcher; takes no lock, so a finaliser may call it."""
        self._run.services.dispatcher.schedule(Lost(self, consumer))


class Lost:
    """A consumer whose finaliser has run."""

    __slots__ = ("_consumer", "_consumers")

    def __init__(self, consumers: Consumers, consumer: object) -> None:
        self._consumers = consumers
        self._consumer = consumer

    def activate(self) -> None:
        """Take it off the count."""
        self._consumers.leave(self._consumer, lost=True)
