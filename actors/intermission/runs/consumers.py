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
            self.abandon()

    def abandon(self) -> None:
        """The last consumer is lost."""
        self._abandoned()

    def leave_later(self, consumer: object) -> None:
        """As `leave(lost=True)`, for finalisers: it takes no lock, and leaves the rest to the dispatcher.

        Whether the run has lost its last consumer is decided here, and not by who comes until then.
        """
        self._here.discard(consumer)
        if not self._here and not self.detached:
            self._dispatcher.schedule(Lost(self))


class Lost:
    """The last consumer of a run, whose finaliser has run."""

    __slots__ = ("_consumers",)

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

    def activate(self) -> None:
        """Say that the last consumer is lost."""
        self._consumers.abandon()
