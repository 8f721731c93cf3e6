"""A timer that closes at the worst moment loses nothing that found it open, and ends at once."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, cast

from intermission.kernel.timer import Timer, TimerHandle
from intermission.testing import Gate
from pools import until


class HeldIncoming(deque[TimerHandle]):
    """Lets whoever hands in on another thread than this one stand at a gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate
        self._here = threading.get_ident()

    def append(self, handle: TimerHandle) -> None:
        if threading.get_ident() != self._here:
            self._gate.wait()
        super().append(handle)


def test_what_found_the_timer_open_runs_though_it_is_handed_in_behind_the_last_look() -> None:
    timer, first, last, between, ran = Timer(), Gate(), Gate(), Gate(), threading.Event()
    timer.call_soon(first.wait)
    first.arrived()
    timer._incoming = HeldIncoming(between)  # pyright: ignore[reportPrivateUsage] - between two steps of it
    late = threading.Thread(target=timer.call_soon, args=(ran.set,))
    late.start()
    between.arrived()
    timer.call_soon(last.wait)
    timer.close(0)
    first.open()
    last.arrived()
    between.open()
    late.join(30)
    last.open()
    assert ran.wait(30)
    timer.close(30)


class ClosingAlarm:
    """Closes its timer when the timer's thread has seen that it is open."""

    def __init__(self, alarm: "SimpleQueue[None]", close: Callable[[], None]) -> None:
        self._alarm = alarm
        self._close = close
        self.get = alarm.get
        self.put = alarm.put
        self.closed = threading.Event()

    def get_nowait(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self._close()
        self._alarm.get_nowait()


def test_a_close_that_meets_the_beginning_of_a_look_is_seen_at_once() -> None:
    timer = Timer(idle=1e6, name="closed")
    timer.poll()
    alarm = ClosingAlarm(timer._alarm, partial(timer.close, 0))  # pyright: ignore[reportPrivateUsage] - as above
    timer._alarm = cast(Any, alarm)  # pyright: ignore[reportPrivateUsage] - as above
    alarm.put(None)
    assert alarm.closed.wait(30)
    until(lambda: not any(thread.name == "closed" for thread in threading.enumerate()))
