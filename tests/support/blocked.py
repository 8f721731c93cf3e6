"""`wait_until_blocked`: know that a thread stands still, without waiting for time to pass."""

import sys
import threading
import time

from intermission_storage.wakeup import Latch

__all__ = ["wait_until_blocked"]

WAITING = {threading.Condition.wait.__code__, Latch.wait.__code__}


def wait_until_blocked(thread: threading.Thread, timeout: float = 30.0) -> None:
    """Return when the thread waits for a condition, an event, a latch or a queue that is written in Python.

    It stands still for good only if nobody is about to wake it: stop those threads at gates first.

    Raises:
        AssertionError: It ended, or went on for `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while time.monotonic() < deadline:
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
        frame = frames.get(thread.ident or 0)
        if frame is not None and frame.f_code in WAITING:
            return
        assert thread.is_alive(), f"{thread.name} has ended and was not held up"
        pause.wait(0.001)
    raise AssertionError(f"{thread.name} was not held up within {timeout} s")
