"""`ToolLoops`: the event loop that async tools run on, and the watch that none of them blocks it for all.

The loop is one that the user has, or else a thread of the runtime's own, which begins with the first async
tool. A loop is blocked when it does not answer within a second. An own one is then left to whoever blocks
it, until that returns, and what comes next gets a fresh one; a loop of the user's is only reported.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeAlias

from intermission.kernel.loop_task import Done, Home, LoopTask
from intermission.kernel.timer import Timer, TimerHandle

__all__ = ["Startup", "ToolLoops"]

logger = logging.getLogger(__name__)

_BEAT = 1.0  # seconds

Startup: TypeAlias = Callable[[], Awaitable[Any]]
"""An async function without arguments."""


class ToolLoops:
    """Starts tasks on the loop of async tools, from any thread.

    Args:
        timer: Its thread asks the loop each second whether it is there, while tasks run.
        loop: Somebody's loop, which is used and never stopped. Without it one is made with the first task.
        on_startup: Awaited on each loop before its first task; for clients that are bound to their loop.
        beat: Seconds until a loop that does not answer counts as blocked.
        name: Of the threads, before their number.
    """

    def __init__(
        self,
        timer: Timer,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        on_startup: Startup | None = None,
        beat: float = _BEAT,
        name: str = "intermission-loop",
    ) -> None:
        self._timer = timer
        self._on_startup = on_startup
        self._context = copy_context()  # what the start-up makes belongs to no run
        self._beat_after = beat
        self._name = name
        self._pid = os.getpid()
        # Reentrant: a finaliser may cancel a task wherever something is allocated.
        self._changed = threading.Condition(threading.RLock())
        self._given = loop is not None
        self._current = None if loop is None else Home(loop)
        self._homes: list[Home] = [] if self._current is None else [self._current]
        self._alarm: TimerHandle | None = None
        self._started = 0
        self.blocked = 0  # loops that a task has blocked, so far
        self._closed = False

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this loop of the user's, unless another was given at the start; an own one if it is closed."""
        with self._changed:
            if self._given or self._closed or (self._current is not None and self._current.loop is loop):
                return
            if self._current is not None:
                self._retire(self._current)
            self._current = Home(loop)
            self._homes.append(self._current)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the next task is started on; `None` if it is not made yet."""
        with self._changed:
            return None if self._current is None else self._current.loop

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        with self._changed:
            return sum(len(home.tasks) for home in self._homes)

    def start(
        self, awaitable: Awaitable[Any], done: Done, *, context: Context | None = None, name: str = "task"
    ) -> LoopTask:
        """Await something on the loop.

        Args:
            awaitable: A coroutine, future or the like. One that is never awaited is closed.
            done: See `Done`; on the loop's thread, and quick.
            context: The context variables of the task; a copy of the caller's by default.
            name: For people who look at the loop.

        Raises:
            RuntimeError: The loops are closed, or there are no more threads; `done` is not called.
        """
        task = LoopTask(self, awaitable, done, copy_context() if context is None else context, name)
        with self._changed:
            home = self._home_of_new()
            task.home = home
            home.tasks.add(task)
            self._watch()
        task.hand_over(home)
        return task

    def close(self, timeout: float = 1.0) -> int:
        """Take no more tasks, cancel those that run, and end the own loops.

        Returns at once in a fork of the process, which has none of the loops; and does not wait for tasks of
        the loop on whose thread it is called.

        Args:
            timeout: Seconds to wait for the tasks.

        Returns:
            How many tasks still run.
        """
        if os.getpid() != self._pid:
            return 0
        with self._changed:
            self._closed = True
            homes = list(self._homes)
            if self._alarm is not None:
                self._alarm.cancel()
        for home in homes:
            for task in list(home.tasks):
                task.cancel()
            startup = home.startup
            if startup is not None:
                with suppress(RuntimeError):  # it is closed
                    home.loop.call_soon_threadsafe(startup.cancel)
            if home.thread is not None:
                home.stop()
        deadline = time.monotonic() + timeout
        for home in homes:
            left = max(0.0, deadline - time.monotonic())
            if home.is_current():
                continue
            if home.thread is not None:
                home.thread.join(left)
            else:
                self._wait_for_tasks(home, left)
        left_over = self.running
        if left_over:
            logger.warning("%d async calls did not end with their runner; they go on", left_over)
        return left_over

    def _wait_for_tasks(self, home: Home, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not home.tasks, timeout)

    # What tasks ask for, on their loop.

    def begins(self, task: LoopTask, home: Home) -> bool:
        """See `Keeper.begins`."""
        with self._changed:
            task.has_begun = task.has_begun or task.home is home
            return task.home is home

    def ended(self, task: LoopTask) -> None:
        """See `Keeper.ended`."""
        with self._changed:
            home = task.home
            home.tasks.discard(task)
            self._changed.notify_all()
            if home.retired and not home.tasks:
                self._let_go(home)

    async def ready(self, home: Home) -> None:
        """See `Keeper.ready`. One that failed is tried again for the next task."""
        if self._on_startup is None:
            home.is_ready = True
            return
        if home.startup is None:
            home.startup = home.loop.create_task(
                self._start_up(home, self._on_startup), name="startup", context=self._context.copy()
            )
        # Who is cancelled meanwhile leaves the start-up to the others.
        await asyncio.shield(home.startup)

    async def _start_up(self, home: Home, on_startup: Startup) -> None:
        try:
            await on_startup()
            home.is_ready = True
        except SystemExit as error:
            raise RuntimeError(f"the start-up of the loop raised {error!r}") from error
        finally:
            home.startup = None

    # The watch.

    def _watch(self) -> None:
        if self._alarm is None:
            with suppress(RuntimeError):  # the timer is closed, and soon this will be
                self._alarm = self._timer.call_later(self._beat_after, self._beat)

    def _beat(self) -> None:
        with self._changed:
            self._alarm = None
            if self._closed:
                return
            homes = [home for home in self._homes if home.tasks and not home.retired]
        for home in homes:
            self._look_after(home)
        with self._changed:
            if not self._closed and any(home.tasks and not home.retired for home in self._homes):
                self._watch()

    def _look_after(self, home: Home) -> None:
        if home.loop.is_closed():
            for task in list(home.tasks):
                task.cancel()
        elif not home.unanswered:
            home.unanswered = True
            with suppress(RuntimeError):  # it was closed just now
                home.loop.call_soon_threadsafe(home.answer)
        elif not home.stuck:
            home.stuck = True
            self.blocked += 1
            blocker = asyncio.current_task(home.loop)
            logger.error(
                "the event loop of async tools has not answered for %s s: %s. %s",
                self._beat_after,
                "it is not running" if blocker is None else f"{blocker.get_name()} blocks it",
                "All that runs on it waits."
                if home.thread is None
                else "It is left alone until that returns; the next tools get a fresh loop.",
            )
            if home.thread is not None:
                self._leave(home)

    def _leave(self, home: Home) -> None:
        """Take from a blocked loop what it has not begun."""
        with self._changed:
            waiting = [task for task in home.tasks if not task.has_begun]
            try:
                fresh = self._own_home()
            except RuntimeError:
                logger.exception("there is no thread for a fresh loop; the blocked one is kept")
                return
            self._current = fresh
            for task in waiting:
                task.home = fresh
                home.tasks.discard(task)
                fresh.tasks.add(task)
            self._retire(home)
        for task in waiting:
            task.hand_over(fresh)

    # Loops of our own.

    def _home_of_new(self) -> Home:
        if self._closed:
            raise RuntimeError("the runner is closed: it takes no more async calls")
        left = self._current is not None and not self._given and self._current.loop.is_closed()
        if self._current is None or left:
            self._current = self._own_home()
        return self._current

    def _own_home(self) -> Home:
        home = Home(asyncio.new_event_loop())
        # Here: it brings thread pools along, and a program without async tools does not wait for these.
        from intermission.kernel.loop_executor import LoopExecutor

        home.loop.set_default_executor(LoopExecutor(self._timer))
        self._started += 1
        name = f"{self._name}-{self._started}"
        home.thread = threading.Thread(target=self._serve, args=(home,), name=name, daemon=True)
        try:
            home.thread.start()
        except RuntimeError:
            home.loop.close()
            raise
        self._homes.append(home)
        return home

    def _retire(self, home: Home) -> None:
        home.retired = True
        if not home.tasks:
            self._let_go(home)

    def _let_go(self, home: Home) -> None:
        if home.thread is not None:
            home.stop()
        elif home in self._homes:
            self._homes.remove(home)

    def _serve(self, home: Home) -> None:
        loop = home.loop
        asyncio.set_event_loop(loop)
        try:
            while not _ran_until_stopped(loop):
                pass
            # What swallows its cancel is waited for as long as it takes; whoever closes does not wait for
            # this thread beyond a bound.
            loop.run_until_complete(asyncio.sleep(0))
            while left := asyncio.all_tasks(loop):
                for one in left:
                    one.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException:
            logger.exception("the loop of async tools failed")
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            for task in list(home.tasks):
                task.cancel()
            with self._changed:
                if home in self._homes:
                    self._homes.remove(home)
                self._changed.notify_all()


def _ran_until_stopped(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        loop.run_forever()
    except BaseException:  # a SystemExit of a task that a tool has started must not end it for all
        logger.exception("a task has left the loop of async tools by an exception")
        return False
    return True
