"""`acquire` and `locked`: locks and semaphores, with a scope."""

from threading import Semaphore
from types import TracebackType
from typing import Any, Protocol

from intermission.blocking.parking import Parking, at_least_nothing, scope_for
from intermission.kernel.scope import CancelScope

__all__ = ["Lockable", "acquire", "locked"]


class Lockable(Protocol):
    """What `acquire` takes: the locks and semaphores of `threading` and `multiprocessing`."""

    def acquire(self, blocking: bool = True, timeout: Any = ..., /) -> bool:
        """Take it."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


def acquire(lock: Lockable, timeout: float | None = None, *, scope: CancelScope | None = None) -> bool:
    """Take a lock or semaphore, as `lock.acquire(timeout=timeout)`; return whether it was free in time.

    When this raises, the lock is not held: one that was got as the cancel came is given back before.

    A `Semaphore` or `BoundedSemaphore` of `threading` is left at once. Other locks let nobody end a wait, so
    the scope is looked at every 50 ms; where that is too long, a `BoundedSemaphore(1)` is a lock, too.

    Args:
        lock: The lock.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("acquire", scope)
    if scope is None:
        timeout = at_least_nothing(timeout)
        return lock.acquire() if timeout is None else lock.acquire(True, timeout)
    if not lock.acquire(False):
        parking = Parking(scope, timeout)
        if isinstance(lock, Semaphore):
            got = _wait_for_place(lock, scope, parking)
        else:
            got = _in_slices(lock, scope, parking)
        if not got:
            return False
    if scope.cancelled:
        lock.release()
        scope.check()
    return True


class locked:
    """Hold a lock or semaphore for the time of the block, as `with lock:`; see `acquire`.

    Args:
        lock: The lock.
        timeout: Seconds; None: as long as it takes.
        scope: The scope that ends the wait; None: the current one, if there is one.
    """

    __slots__ = ("_lock", "_scope", "_timeout")

    def __init__(
        self, lock: Lockable, timeout: float | None = None, *, scope: CancelScope | None = None
    ) -> None:
        self._lock = lock
        self._timeout = timeout
        self._scope = scope

    def __enter__(self) -> None:
        """Take it.

        Raises:
            Cancelled: The scope is cancelled; the block does not begin.
            TimeoutError: The lock was not free in time; the block does not begin.
            RuntimeError: This thread runs an event loop, which would freeze.
        """
        if not acquire(self._lock, self._timeout, scope=self._scope):
            raise TimeoutError(f"{self._lock!r} was held by others for {self._timeout} s; it was not taken")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self._lock.release()


def _wait_for_place(semaphore: Semaphore, scope: CancelScope, parking: Parking) -> bool:
    inner: Any = semaphore
    while True:
        with inner._cond:
            if inner._value == 0 and not parking.stand(inner._cond):
                scope.check()
        if semaphore.acquire(blocking=False):
            return True
        scope.check()
        if parking.is_over:
            return False


def _in_slices(lock: Lockable, scope: CancelScope, parking: Parking) -> bool:
    while not lock.acquire(True, parking.slice):
        scope.check()
        if parking.is_over:
            return False
    return True
