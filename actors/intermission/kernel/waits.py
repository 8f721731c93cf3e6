"""`WaitsFor`: who waits for whom, so that a wait that could never end is an error when it begins."""

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager

from intermission.errors import IntermissionError

__all__ = ["ReentrantRunError", "Wait", "WaitsFor"]

_NOTHING_DONE = "Nothing was begun; start() the run without waiting for it, or use another session."


class ReentrantRunError(IntermissionError):
    """Waiting for this session would never end: it waits, over others or at once, for the one that asks.

    Its text says what was done nevertheless. Start the run without waiting for it (`start()`), or use another
    session.

    Args:
        chain: Who would wait for whom.
        done: What was done, and what to do instead.

    Attributes:
        chain: Who would wait for whom; the first and the last are the same.
    """

    def __init__(self, chain: tuple[Hashable, ...], done: str = _NOTHING_DONE) -> None:
        path = " → ".join(map(str, chain))
        super().__init__(f"this wait would never end: {path}, each of which waits for the next. {done}")
        self.chain = chain


class Wait:
    """A wait that has begun, until `WaitsFor.end`."""

    __slots__ = ("target", "waiter")

    def __init__(self, waiter: Hashable, target: Hashable) -> None:
        self.waiter = waiter
        self.target = target


class WaitsFor:
    """A map from sessions to those that they wait for; it never holds a circle.

    A session may wait several times at once, for one other or for many, from any threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Waits, not counts: to end one twice, or one that an interrupt kept from beginning, is harmless.
        self._waits: dict[Hashable, set[Wait]] = {}

    @contextmanager
    def waiting(self, waiter: Hashable, target: Hashable) -> Generator[None]:
        """Note for the time of the block that `waiter` waits for `target`.

        Raises:
            ReentrantRunError: `target` waits for `waiter`, over others or at once, or is the same.
        """
        wait = Wait(waiter, target)
        try:
            self._begin(wait)
            yield
        finally:
            self.end(wait)

    def begin(self, waiter: Hashable, target: Hashable) -> Wait:
        """Note that `waiter` waits for `target`, until `end` gets what this returns.

        Raises:
            ReentrantRunError: As for `waiting`.
        """
        wait = Wait(waiter, target)
        self._begin(wait)
        return wait

    def end(self, wait: Wait) -> None:
        """Forget a wait. The second time does nothing."""
        with self._lock:
            waits = self._waits.get(wait.waiter)
            if waits is not None:
                waits.discard(wait)
                if not waits:
                    del self._waits[wait.waiter]

    def waiters(self, target: Hashable) -> set[Hashable]:
        """Return who waits for `target`, over others or at once."""
        found: set[Hashable] = set()
        with self._lock:
            todo = [target]
            for place in todo:
                for waiter, waits in self._waits.items():
                    if waiter not in found and any(wait.target == place for wait in waits):
                        found.add(waiter)
                        todo.append(waiter)
        return found

    def __len__(self) -> int:
        """Return how many wait."""
        with self._lock:
            return len(self._waits)

    def _begin(self, wait: Wait) -> None:
        with self._lock:
            chain = self._chain(wait.target, wait.waiter)
            if chain is None:
                self._waits.setdefault(wait.waiter, set()).add(wait)
                return
        raise ReentrantRunError((wait.waiter, *chain))

    def _chain(self, start: Hashable, end: Hashable) -> tuple[Hashable, ...] | None:
        # Breadth first, so that the message shows a shortest way.
        came_from: dict[Hashable, Hashable] = {start: start}
        todo = [start]
        for place in todo:
            if place == end:
                chain = [place]
                while chain[-1] != start:
                    chain.append(came_from[chain[-1]])
                return tuple(reversed(chain))
            for wait in self._waits.get(place, ()):
                if wait.target not in came_from:
                    came_from[wait.target] = place
                    todo.append(wait.target)
        return None
