"""`Parking`: a wait for others' conditions that a cancel ends, with no lock, thread or look now and then.

Python's conditions keep a bare lock for each waiter, and `notify` releases it. A parked thread puts a lock of
its own among them, and the cancel releases the same one. Whoever comes first has woken it: a `notify` that
finds the lock released already goes on to the next waiter, so none is lost.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from intermission.kernel.gates import hold, new_gate, open_gate, refuse_in_loop
from intermission.kernel.scope import CancelScope

__all__ = ["Parking", "at_least_nothing", "pause", "scope_for"]

_SLICE = 0.05  # seconds between looks at the scope where a thing lets nobody in among its waiters


def scope_for(name: str, scope: CancelScope | None) -> CancelScope | None:
    """Return the scope that a wait looks at, the given one or the current one; it is not cancelled.

    Raises:
        Cancelled: It is.
        RuntimeError: This thread runs an event loop.
    """
    refuse_in_loop(name, "asyncio.to_thread(...) with it")
    if scope is None:
        scope = CancelScope.current()
    if scope is not None:
        scope.check()
    return scope


def at_least_nothing(timeout: float | None) -> float | None:
    """Return `timeout` for Python's own waits, which refuse less than nothing."""
    return None if timeout is None else max(0.0, timeout)


class Parking:
    """One wait: the scope that ends it, and how long it may take.

    Args:
        scope: The scope; its clock counts.
        timeout: Seconds. None: as long as it takes.
    """

    __slots__ = ("_deadline", "_scope", "_timer")

    def __init__(self, scope: CancelScope, timeout: float | None) -> None:
        self._scope = scope
        self._timer = scope.timer
        self._deadline = None if timeout is None else self._timer.clock.monotonic() + timeout

    @property
    def left(self) -> float | None:
        """How many seconds are left, at least none."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._timer.clock.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether none are."""
        return self.left == 0.0

    @property
    def slice(self) -> float:
        """How many seconds to wait before the next look, where only looking helps."""
        left = self.left
        return _SLICE if left is None else min(left, _SLICE)

    def stand(self, condition: threading.Condition) -> bool:
        """Wait as `condition.wait` does, its lock held before and after, and return whether it notified.

        If not, the scope is cancelled or the time is over.
        """
        inner: Any = condition
        gate = new_gate()
        handle = self._scope.on_cancel_now(partial(open_gate, gate))
        inner._waiters.append(gate)
        saved = inner._release_save()
        notified = False
        try:
            hold(gate, self.left, self._timer)
        finally:
            inner._acquire_restore(saved)
            handle.remove()
            try:
                inner._waiters.remove(gate)
            except ValueError:
                notified = True
        return notified

    def stand_at_any(self, places: Iterable[tuple[threading.Condition, Callable[[], bool]]]) -> None:
        """Wait until one of several conditions notifies all, the scope is cancelled or the time is over.

        Args:
            places: The conditions, none of them held, and what says whether there is need to wait for it.
        """
        gate = new_gate()
        open_it = partial(open_gate, gate)
        joined: list[threading.Condition] = []
        handle = self._scope.on_cancel_now(open_it)
        try:
            for condition, must_wait in places:
                with condition:
                    joined.append(condition)
                    cast(Any, condition)._waiters.append(gate)
                    if not must_wait():
                        open_it()
                        break
            hold(gate, self.left, self._timer)
        finally:
            handle.remove()
            for condition in joined:
                with condition, suppress(ValueError):
                    cast(Any, condition)._waiters.remove(gate)


def pause(scope: CancelScope | None, seconds: float) -> None:
    """Wait for real time to pass, less if the scope is cancelled meanwhile."""
    gate = new_gate()
    handle = None if scope is None else scope.on_cancel_now(partial(open_gate, gate))
    try:
        gate.acquire(timeout=seconds)
    finally:
        if handle is not None:
            handle.remove()
