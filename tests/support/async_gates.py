"""`AsyncGate`: what `Gate` is for threads, for tasks."""

import asyncio
import threading
from contextlib import suppress

from intermission.testing.sync import PATIENCE

__all__ = ["AsyncGate"]


class AsyncGate:
    """A point at which a task stops until the test, on a thread, lets it go on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._arrivals = 0
        self._open = False

    async def wait(self) -> None:
        """Stop here until the gate is open."""
        event = asyncio.Event()
        with self._changed:
            self._arrivals += 1
            self._changed.notify_all()
            if self._open:
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await asyncio.wait_for(event.wait(), PATIENCE)

    def arrived(self, count: int = 1) -> None:
        """Wait until `wait` has been called `count` times in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._arrivals >= count, PATIENCE), self._arrivals

    @property
    def arrivals(self) -> int:
        """How often `wait` has been called."""
        with self._changed:
            return self._arrivals

    def open(self) -> None:
        """Let everybody through, now and later."""
        with self._changed:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits on it any more
                loop.call_soon_threadsafe(event.set)
