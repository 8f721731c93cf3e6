"""`LoopTask`: something that is awaited on a loop, and `Home`, a loop with what runs on it for us."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeAlias

__all__ = ["Done", "Home", "Keeper", "LoopTask", "close_awaitable"]

logger = logging.getLogger(__name__)

Done: TypeAlias = Callable[[Any, BaseException | None], object]
"""Called once with a task's value, or with the error that ended it, when it has really ended."""


class Keeper(Protocol):
    """Who has the loops."""

    def begins(self, task: "LoopTask", home: "Home") -> bool:
        """Return whether the task is still this loop's to begin; from then on it is nobody else's."""
        ...

    def ended(self, task: "LoopTask") -> None:
        """Forget a task."""
        ...

    async def ready(self, home: "Home") -> None:
        """Return when the start-up has been on this loop."""
        ...


class Home:
    """A loop, and what runs on it for us. An own one has a thread.

    Attributes:
        loop: The loop.
        thread: Its thread, if it is an own one.
        tasks: What has not ended on it.
        startup: The start-up, while it runs.
        is_ready: Whether the start-up has been.
        unanswered: Whether it was asked if it is there, and has not answered.
        stuck: Whether that was reported.
        retired: Whether it gets no new tasks.
    """

    __slots__ = ("is_ready", "loop", "retired", "startup", "stuck", "tasks", "thread", "unanswered")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread: threading.Thread | None = None
        self.tasks: set[LoopTask] = set()
        self.startup: asyncio.Task[None] | None = None
        self.is_ready = False
        self.unanswered = False
        self.stuck = False
        self.retired = False

    def answer(self) -> None:
        """It is there."""
        self.unanswered = self.stuck = False

    def is_current(self) -> bool:
        """Return whether it runs on this thread."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def stop(self) -> None:
        """Have an own loop end when it comes to it."""
        with suppress(RuntimeError):  # it is closed
            self.loop.call_soon_threadsafe(self.loop.stop)


class LoopTask:
    """Something that is awaited on a loop; `ToolLoops.start` makes it.

    Attributes:
        has_begun: Whether its loop has come to it.
        home: Its loop.
    """

    __slots__ = (
        "_awaitable",
        "_cancelled",
        "_context",
        "_loops",
        "_name",
        "_task",
        "_tickets",
        "has_begun",
        "home",
    )

    def __init__(
        self, loops: Keeper, awaitable: Awaitable[Any], done: Done, context: Context, name: str
    ) -> None:
        self._loops = loops
        self._awaitable = awaitable
        self._context = context
        self._name = name
        self._tickets = [done]  # whoever takes it out tells of the end
        self._task: asyncio.Task[tuple[Any, BaseException | None]] | None = None
        self._cancelled = False
        self.has_begun = False
        self.home: Home

    def cancel(self) -> None:
        """Cancel the task, from any thread, also in a finaliser, and return at once.

        What has not begun never does. What swallows its cancel goes on until it ends.
        """
        self._cancelled = True
        try:
            self.home.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # nothing runs on a closed loop any more
            self.end(None, asyncio.CancelledError())

    def hand_over(self, home: Home) -> None:
        """Have a loop begin it."""
        try:
            home.loop.call_soon_threadsafe(self._begin, home)
        except RuntimeError as error:
            self.end(None, error)

    def _begin(self, home: Home) -> None:
        if not self._loops.begins(self, home):
            return
        if self._cancelled and close_awaitable(self._awaitable):
            self.end(None, asyncio.CancelledError())
            return
        steps = self._await(home)
        self._task = task = home.loop.create_task(steps, name=self._name, context=self._context)
        task.add_done_callback(self._ended)
        if self._cancelled:
            self._cancel()

    async def _await(self, home: Home) -> tuple[Any, BaseException | None]:
        # A task that lets these two out takes its loop along, which may be somebody's program.
        try:
            if not home.is_ready:
                await self._prepare(home)
            return await self._awaitable, None
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits for the task
            return None, error

    async def _prepare(self, home: Home) -> None:
        try:
            await self._loops.ready(home)
        except (asyncio.CancelledError, Exception):
            if close_awaitable(self._awaitable):
                raise  # else its work goes on, and so does this

    def _cancel(self) -> None:
        if self._task is not None:
            # After its first step, for a task that is cancelled before does not await anything.
            self.home.loop.call_soon(self._task.cancel)

    def _ended(self, task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        if task.cancelled():
            self.end(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.end(None, error)
        else:
            self.end(*task.result())

    def end(self, value: Any, error: BaseException | None) -> None:
        """It has ended, or will never begin."""
        try:
            done = self._tickets.pop()
        except IndexError:
            return
        if self._task is None or self._task.done():
            close_awaitable(self._awaitable)
        try:
            done(value, error)
        except BaseException:
            logger.exception("what waited for an async call failed")
        self._loops.ended(self)


def close_awaitable(awaitable: Awaitable[Any]) -> bool:
    """Close, if it can be closed, what was never awaited, and return whether nothing of it goes on.

    A coroutine is closed for ever. What has begun without being awaited says no, by returning `False`.
    """
    close = getattr(awaitable, "close", None)
    try:
        return not callable(close) or close() is not False
    except BaseException:
        logger.exception("an awaitable could not be closed")
        return True
