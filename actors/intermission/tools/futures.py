"""`result_of`: await a `concurrent.futures.Future`, and never leave it while it runs."""

import asyncio
import concurrent.futures
from contextlib import suppress
from typing import TypeVar

__all__ = ["result_of"]

T = TypeVar("T")


async def result_of(future: "concurrent.futures.Future[T]") -> T:
    """Return what a future comes to.

    Cancelling the task that awaits this cancels the future. One that already runs cannot be cancelled: the
    task then ends with it, not before, so that nobody takes its work for done.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits there
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    try:
        await done.wait()
    except asyncio.CancelledError:
        if not future.cancel():
            await _in_spite_of_cancels(done)
        raise
    return future.result()


async def _in_spite_of_cancels(done: asyncio.Event) -> None:
    while not done.is_set():
        with suppress(asyncio.CancelledError):
            await done.wait()
