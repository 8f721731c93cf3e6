"""`Children`: the processes that run a runner's tools. Idle ones are kept for a while, as threads are."""

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import Protocol

from intermission.isolation.setting import Setting
from intermission.isolation.tool_process import Reply, ToolProcess
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import Timer, TimerHandle
from intermission.kernel.workers import Budget, Workers
from intermission.processes.groups import Descendant

__all__ = ["Children", "Owner", "call_alone"]

_PATIENCE = 1.0  # seconds for all that are idle to end by themselves when the runner closes


class Owner(Protocol):
    """Whose call it is that goes on in a child."""

    @property
    def children(self) -> "Children":
        """Those that may run it."""
        ...

    @property
    def grace(self) -> float:
        """Seconds between the request to end and the kill."""
        ...

    def left_behind(self, call_id: str, process: Descendant) -> None:
        """A process that the call has started has left its group, and lives though the call is over."""
        ...


class Children:
    """The processes that run a runner's tools.

    One that has done its call, and has left nothing behind, serves the next that asks for the same setting.
    One that was told to end never does.

    Args:
        timer: Ends the idle ones.
        workers: Have the time to wait for that.
        idle: Seconds without a call after which one ends.
        most_idle: How many are kept; one more ends at once.
    """

    def __init__(
        self, timer: Timer, workers: Workers, *, idle: float = 5.0, most_idle: int | None = None
    ) -> None:
        self._timer = timer
        self._workers = workers
        self._idle_for = idle
        self._most_idle = 2 * (os.cpu_count() or 1) if most_idle is None else most_idle
        self._lock = threading.Lock()
        self._idle: dict[ToolProcess, TimerHandle] = {}
        self._closed = False
        _pools.add(self)

    @property
    def idle(self) -> int:
        """How many wait for a call."""
        return len(self._idle)

    def call(
        self, request: object, scope: CancelScope, owner: Owner, call_id: str
    ) -> tuple[Reply | None, ToolProcess]:
        """Have a child do something, and wait for that; see `ToolProcess.call`.

        Raises:
            ToolProcessError: The system does not start one.
        """
        setting = Setting.here()
        process = self._take(setting)
        if process is None:
            process = ToolProcess(setting)
        reply, goes_on = process.call(
            request, scope, owner.grace, lambda left: owner.left_behind(call_id, left)
        )
        if goes_on:
            self._give_back(process)
        return reply, process

    def close(self) -> None:
        """End the idle ones, and keep none from now on. Those at work are ended with their calls."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for process, alarm in idle.items():
            alarm.cancel()
            process.dismiss()
        deadline = time.monotonic() + _PATIENCE
        for process in idle:
            process.end_idle(max(0.0, deadline - time.monotonic()))

    def forsake(self) -> None:
        """Know of no process any more, and keep none: this is a copy of their parent."""
        self._lock = threading.Lock()  # a thread that is not here may have held it
        self._closed = True
        self._idle = {}

    def _take(self, setting: Setting) -> ToolProcess | None:
        ended, found = list[ToolProcess](), None
        with self._lock:
            for process in reversed(self._idle):  # the one that was at work last
                if process.has_ended:
                    ended.append(process)
                elif process.setting == setting:
                    found = process
                    break
            for process in [*ended, *([] if found is None else [found])]:
                self._idle.pop(process).cancel()
        for process in ended:
            process.end_idle()
        return found

    def _give_back(self, process: ToolProcess) -> None:
        with self._lock, suppress(RuntimeError):  # the timer is closed
            if not self._closed and len(self._idle) < self._most_idle:
                self._idle[process] = self._timer.call_later(self._idle_for, self._expire, process)
                return
        self._retire(process)

    def _expire(self, process: ToolProcess) -> None:
        with self._lock:
            if self._idle.pop(process, None) is None:
                return
        self._retire(process)

    def _retire(self, process: ToolProcess) -> None:
        """Let an idle one end, and have somebody wait for that: neither a call nor the timer does."""
        process.dismiss()
        self._workers.submit(process.end_idle, refused=process.end_idle, budget=Budget.RESERVE)


def call_alone(request: object, scope: CancelScope, grace: float) -> tuple[Reply | None, ToolProcess]:
    """Have a child of its own do something, outside of all runs; see `ToolProcess.call`.

    Raises:
        ToolProcessError: The system does not start it.
    """
    process = ToolProcess(Setting.here())
    reply, goes_on = process.call(request, scope, grace, lambda _: None)
    if goes_on:
        process.end_idle()
    return reply, process


_pools: "weakref.WeakSet[Children]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:  # pyright: ignore[reportUnusedFunction]  # called at the end of the program
    for pool in list(_pools):
        pool.close()


def _after_fork() -> None:
    # The idle ones are those of the parent, which a forked child must not end.
    for pool in list(_pools):
        pool.forsake()


os.register_at_fork(after_in_child=_after_fork)
