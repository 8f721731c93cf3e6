"""`Latch` and `Wakeup`: waiting without a lock that a signal handler could find held.

`threading.Event` and `threading.Condition` do the same under a lock. A signal handler that runs while the
main thread has that lock, and waits for the thread that wants it next, waits for ever. Here each who waits
has a lock of its own, for which nobody else ever waits; and the exception of a handler, as of a Ctrl-C,
leaves nothing half done, while a `Condition` that it interrupts may be left without its lock.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Latch", "Wakeup"]

_HEED = 0.5  # seconds


class Latch:
    """Opened once, by anybody, for one who waits."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()

    def open(self) -> None:
        """Let who waits go on; never twice."""
        self._closed.release()

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has been opened, or after `timeout` seconds.

        In the main thread a signal is heeded within half a second at the latest. Python calls handlers
        between two steps of that thread: a signal that comes after the last step before a wait, and before
        the system has begun the wait, does not end it, and a Ctrl-C would be lost until there is something
        to wake up for. So the main thread looks up now and then.
        """
        left = threading.TIMEOUT_MAX if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        if threading.current_thread() is threading.main_thread():
            while left > _HEED:
                if self._closed.acquire(timeout=_HEED):
                    return
                left -= _HEED
        self._closed.acquire(timeout=left)


class Wakeup:
    """Wakes those who wait until something is true. It is made true first, then `wake` is called."""

    def __init__(self) -> None:
        self._waiting: deque[Latch] = deque()

    def wait_until(self, is_true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Return true as soon as `is_true` is, or false after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not is_true():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            latch = Latch()
            self._waiting.append(latch)
            try:
                # Who has made it true before the line above did not see that this thread waits.
                if not is_true():
                    latch.wait(left)
            finally:
                with contextlib.suppress(ValueError):  # it was woken
                    self._waiting.remove(latch)
        return True

    def wake(self) -> None:
        """Let all who wait look again."""
        if not self._waiting:
            return
        with contextlib.suppress(IndexError):  # none is left
            for _ in range(len(self._waiting)):
                self._waiting.popleft().open()
