"""`Consumers`: who consumes a run, and what becomes of the run when the last of them is gone."""

import threading
from collections.abc import Callable

from intermission.kernel.dispatcher import Dispatcher

__all__ = ["Consumers", "Lost"]


class Consumers:
    """Who consumes one run. A run that was started with no consumer belongs to nobody.

    A consumer is any object; to come twice, or to go without having come, changes nothing, so that an
    interrupt may hit between any two steps.

    Args:
        dispatcher: What a finaliser leaves its work to.
        abandoned: Called when the last one is lost.
        detached: Whether nobody owns the run.
    """

    __slots__ = ("_abandoned", "_dispatcher", "_here", "_lock", "detached")

    def __init__(
        self, dispatcher: Dispatcher, abandoned: Callable[[], object], *, detached: bool = False
    ) -> None:
        self._dispatcher = dispatcher
        self._abandoned = abandoned
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
        if gone:
            self._abandoned()

    def leave_later(self, consumer: object) -> None:
        """As `leave(lost=True)`, on a thread of the dispatcher; takes no lock, so a finaliser may call it."""
        self._dispatcher.schedule(Lost(self, consumer))


class Lost:
    """A consumer whose finaliser has run."""

    __slots__ = ("_consumer", "_consumers")

    def __init__(self, consumers: Consumers, consumer: object) -> None:
        self._consumers = consumers
        self._consumer = consumer

    def activate(self) -> None:
        """Take it off the count."""
        self._consumers.leave(self._consumer, lost=True)
