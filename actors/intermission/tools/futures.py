"""`FutureResult`: await a `concurrent.futures.Future`, and never leave it while it runs."""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Generator
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["FutureResult"]

T = TypeVar("T")


class FutureResult(Awaitable[T]):
    """What a future comes to.

    Cancelling the task that awaits this cancels the future. One that already runs cannot be cancelled: the
    task then ends with it, not before, so that nobody takes its work for done.
    """

    def __init__(self, future: "concurrent.futures.Future[T]") -> None:
        self._future = future

    def close(self) -> bool:
        """Cancel the future, which nobody needs, and return whether that is its end."""
        return self._future.cancel() or self._future.done()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def wake(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits there
                loop.call_soon_threadsafe(done.set)

        self._future.add_done_callback(wake)
        try:
            await done.wait()
        except asyncio.CancelledError:
            if not self.close():
                await _in_spite_of_cancels(done)
            raise
        return self._future.result()


async def _in_spite_of_cancels(done: asyncio.Event) -> None:
    while not done.is_set():
        with suppress(asyncio.CancelledError):
            await done.wait()
