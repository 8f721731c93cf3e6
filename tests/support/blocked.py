"""`wait_until_blocked`: know that a thread stands still, without waiting for time to pass."""

import sys
import threading
import time

from intermission_storage.wakeup import Latch

__all__ = ["wait_until_blocked"]

WAITING = {threading.Condition.wait.__code__, Latch.wait.__code__}


def wait_until_blocked(thread: threading.Thread, timeout: float = 30.0, *, looks: int = 1) -> None:
    """Return when the thread waits for a condition, an event, a latch or a queue that is written in Python.

    It stands still for good only if nobody is about to wake it: stop those threads at gates first.

    Args:
        thread: Which one.
        timeout: Seconds.
        looks: How often in a row it must be seen at one place. Before a signal it takes many: Python does not
            heed one that comes just before it waits, but only when the wait is over.

    Raises:
        AssertionError: It ended, or went on for `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    seen, place = 0, -1
    while time.monotonic() < deadline:
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
        frame = frames.get(thread.ident or 0)
        if frame is not None and frame.f_code in WAITING:
            seen, place = (seen + 1 if frame.f_lasti == place else 1), frame.f_lasti
            if seen >= looks:
                return
        else:
            seen = 0
        assert thread.is_alive(), f"{thread.name} has ended and was not held up"
        pause.wait(0.001)
    raise AssertionError(f"{thread.name} was not held up within {timeout} s")
