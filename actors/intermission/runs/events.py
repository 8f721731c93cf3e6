"""Iterating a run's events: `Events` on a thread, `AsyncEvents` on an event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

from intermission.events import Event
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import RunStatus
from intermission.runs.stream import End, Stream
from intermission.runs.waiting import in_worker, waiting

__all__ = ["AsyncEvents", "Events"]


class _Consumption:
    """One consumer of a run's events. Dropped before the end, it is a consumer that the run has lost."""

    _open = False  # until it is made whole

    def __init__(self, run: Lifecycle, stream: Stream, *, viewer: bool) -> None:
        self._run = run
        self._stream = stream
        self._viewer = viewer
        self._open = True
        self._consumer = object()  # stands for this one, which the run must not hold
        if not viewer:
            run.consumers.enter(self._consumer)

    def _leave(self, *, lost: bool) -> None:
        if not self._open:
            return
        if self._viewer:
            self._run.drop_stream(self._stream)
        else:
            self._run.consumers.leave(self._consumer, lost=lost)
        self._open = False  # last: if an interrupt comes before, the finaliser does it again

    def __del__(self) -> None:
        # Garbage collection may call it anywhere, also inside a lock that this thread holds.
        if self._open and not self._viewer:
            self._open = False
            self._run.consumers.leave_later(self._consumer)

    def _error(self) -> Exception | None:
        result = self._run.result
        assert result is not None
        return result.error if result.status in {RunStatus.FAILED, RunStatus.EXPIRED} else None


class Events(_Consumption, Iterator[Event]):
    """The events of a run. `close` gives them up, as leaving the loop does."""

    def __next__(self) -> Event:
        """Return the next event when it is there.

        Raises:
            Exception: What failed the run, after its last event.
        """
        if not self._open:
            raise StopIteration
        try:
            event = self._stream.poll()
            if event is None:
                with waiting(self._run):
                    event = self._stream.get()
        except BaseException:
            self._leave(lost=True)
            raise
        if isinstance(event, Event):
            return event
        self._run.wait_ended(None)
        self._leave(lost=False)
        error = self._error()
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Give the events up."""
        self._leave(lost=True)


class AsyncEvents(_Consumption, AsyncIterator[Event]):
    """The events of a run, on an event loop. `aclose` gives them up, as leaving the loop does."""

    def __init__(self, run: Lifecycle, stream: Stream, *, viewer: bool) -> None:
        super().__init__(run, stream, viewer=viewer)
        self._changed = asyncio.Event()
        stream.on_change(_waker(asyncio.get_running_loop(), self._changed))

    async def __anext__(self) -> Event:
        """Return the next event when it is there.

        Raises:
            Exception: What failed the run, after its last event.
        """
        if not self._open:
            raise StopAsyncIteration
        try:
            event = await self._next()
        except BaseException:
            self._stream.on_change(None)
            self._leave(lost=True)
            raise
        if isinstance(event, Event):
            return event
        self._stream.on_change(None)
        self._run.wait_ended(None)
        self._leave(lost=False)
        error = self._error()
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give the events up."""
        self._stream.on_change(None)
        self._leave(lost=True)

    async def _next(self) -> Event | End:
        while True:
            self._changed.clear()
            if self._stream.must_read:
                event = await in_worker(self._run.services, self._stream.poll)
            else:
                event = self._stream.poll()
            if event is not None:
                return event
            with waiting(self._run):
                await self._changed.wait()


def _waker(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> Callable[[], None]:
    # It must not hold the consumption: the stream holds it, and would keep a dropped consumer alive.
    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits on it any more
            loop.call_soon_threadsafe(changed.set)

    return wake
