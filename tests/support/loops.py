"""What tests of loops share: who is told of ends, somebody else's loop, and the threads of our own."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["PATIENCE", "Ends", "answered", "foreign", "forever", "own_threads", "this_loop"]

PATIENCE = 30.0


class Ends:
    """Keeps what tasks ended with, and lets the test wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: list[tuple[Any, BaseException | None]] = []

    def __call__(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            self.seen.append((value, error))
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[tuple[Any, BaseException | None]]:
        """Wait for so many ends."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, PATIENCE)
            return list(self.seen)


@contextmanager
def foreign() -> Generator[asyncio.AbstractEventLoop]:
    """A loop that somebody else runs, on a thread of his own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def answered(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the loop has come to all that was handed in before."""

    async def nothing() -> None: ...

    asyncio.run_coroutine_threadsafe(nothing(), loop).result(PATIENCE)


async def this_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs this."""
    return asyncio.get_running_loop()


async def forever() -> None:
    """Wait without an end."""
    await asyncio.Event().wait()


def own_threads() -> list[str]:
    """The names of the threads of our own loops."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("intermission-loop")]
