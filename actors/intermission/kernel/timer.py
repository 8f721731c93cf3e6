"""`Timer`: one daemon thread that calls functions at their time, for all deadlines of a runtime.

Callers take no lock: they append to a deque, and wake the thread only when it would sleep too long. So a
signal handler and a finaliser that interrupts anything, this module included, may use a timer too.
"""

import _thread
import heapq
import logging
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVarTuple, runtime_checkable

from intermission.kernel.clock import Clock, SystemClock

__all__ = ["SteeredClock", "Timer", "TimerHandle", "default_timer"]

logger = logging.getLogger(__name__)

_Ts = TypeVarTuple("_Ts")

_LONGEST_LOOK = 2.0  # seconds: so long can the thread stay for deadlines that have all been cancelled
_SHORTEST_LOOK = 0.05  # seconds, on a clock that is not the machine's and may stand still
_BATCH = 1024  # hand-ins after which the thread takes them in, though none of them is due
_PATIENCE, _LOOKS = 30.0, 600  # seconds that a poll waits, and how often it looks for a close meanwhile

# Who begins first decides: the new thread, or its starter that was interrupted and takes it back.
_VERDICT, _BEGUN, _REVOKED = "verdict", "begun", "revoked"
_Claim = dict[str, str]


@runtime_checkable
class SteeredClock(Protocol):
    """What a clock offers besides `Clock` if somebody moves it by hand and timers shall follow at once."""

    def on_advance(self, hook: Callable[[], object]) -> Callable[[], object]:
        """Call `hook` after each move, on the thread that moves; return what takes the hook away again."""
        ...


class TimerHandle:
    """A call that is to come."""

    __slots__ = ("_args", "_function", "_timer", "when")

    def __init__(
        self, timer: "Timer", when: float, function: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        self._timer = timer
        self._function: Callable[..., object] | None = function
        self._args = args
        self.when = when

    def cancel(self) -> None:
        """Take the call back, if it has not begun. What it refers to is let go at once."""
        if self._function is not None:
            self._function = None
            self._args = ()
            self._timer._count_cancel()  # pyright: ignore[reportPrivateUsage]  # the two are one thing

    @property
    def cancelled(self) -> bool:
        """Whether the call has been taken back, or has been made."""
        return self._function is None

    def _run(self) -> None:
        args = self._args  # first: `cancel` clears them last
        function = self._function
        self._function = None
        self._args = ()
        if function is None:
            return
        try:
            function(*args)
        except BaseException:  # one bad function must not cost everybody their deadlines
            logger.exception("a function of the timer failed")


class Timer:
    """Calls functions later, one after another on a thread of its own, which lives while there is need.

    The functions are quick and never block: a slow one delays all the others.

    Args:
        clock: Whose `monotonic` counts. A `SteeredClock` makes what is due run within its move.
        idle: Seconds for which the thread stays when nothing is to come.
        name: Of the thread.
    """

    def __init__(
        self, clock: Clock | None = None, *, idle: float = 0.5, name: str = "intermission-timer"
    ) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        # Bound once: `monotonic` of the machine is called for every deadline.
        self._now = self.clock.monotonic
        self._idle = idle
        self._name = name
        self._closed = False
        self._unsteer: Callable[[], object] | None = None
        self._begin_anew()
        _timers.add(self)
        if isinstance(self.clock, SteeredClock):
            self._unsteer = self.clock.on_advance(self.poll)

    def _begin_anew(self) -> None:
        # `_incoming` is what was handed in; `_heap`, in order of time, belongs to the thread.
        self._incoming: deque[TimerHandle] = deque()
        self._heap: list[tuple[float, int, TimerHandle]] = []
        self._alarm: SimpleQueue[None] = SimpleQueue()
        # Up to when the thread sleeps; while it is awake, or about to look once more, no time is earlier.
        self._wake_at = math.inf
        self._owner: dict[int, _Claim] = {}
        self._thread: threading.Thread | None = None
        self._ident = 0
        self._order = count()
        self._cancels = count(1)
        self._cancelled = 0
        self._compacted_at = 0

    @property
    def is_steered(self) -> bool:
        """Whether the clock is not the machine's, so that waiting for real time is pointless."""
        return not isinstance(self.clock, SystemClock)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def pending(self) -> int:
        """How many calls are kept, cancelled ones that have not been swept away yet included."""
        return len(self._heap) + len(self._incoming)

    def call_later(self, seconds: float, function: Callable[[*_Ts], object], *args: *_Ts) -> TimerHandle:
        """Call `function(*args)` on the timer's thread in `seconds`; never, if they are infinite.

        Args:
            seconds: Not a number is an error; what is negative is due at once.

        Raises:
            ValueError: `seconds` is not a number.
            RuntimeError: The timer is closed, or the system starts no more threads.
        """
        if not seconds > 0.0:
            if math.isnan(seconds):
                raise ValueError("a timer needs a number of seconds, not nan")
            seconds = 0.0
        return self._hand_in(TimerHandle(self, self._now() + seconds, function, args))

    def call_soon(self, function: Callable[[*_Ts], object], *args: *_Ts) -> TimerHandle:
        """Call `function(*args)` on the timer's thread before everything that has a time.

        The way out of a signal handler or finaliser for what must not run there.

        Raises:
            RuntimeError: As for `call_later`.
        """
        return self._hand_in(TimerHandle(self, -math.inf, function, args))

    def poll(self) -> None:
        """Return when all that was handed in before and is due by the clock has run, or the timer is closed.

        On the timer's own thread it returns at once.

        Raises:
            TimeoutError: That took longer than 30 s of real time.
        """
        if self._closed or _thread.get_ident() == self._ident:
            return
        done = _thread.allocate_lock()
        done.acquire()
        # Of one time the later hand-in comes later, so this is the last that is due.
        try:
            self._hand_in(TimerHandle(self, self._now(), done.release, ()))
        except RuntimeError:
            if self._closed:
                return
            raise
        self._alarm.put(None)
        for _ in range(_LOOKS):
            if (
                done.acquire(timeout=_PATIENCE / _LOOKS) or self._closed
            ):  # a close forgets what is due, this too
                return
        raise TimeoutError(f"a function of the timer has not returned within {_PATIENCE} s")

    def close(self, timeout: float | None = 5.0) -> None:
        """End the thread; what has a time and has not been called never is. A second call does nothing more.

        Args:
            timeout: Seconds to wait for a function that runs.
        """
        self._closed = True
        if self._unsteer is not None:
            self._unsteer()
            self._unsteer = None
        self._alarm.put(None)
        if self._thread is not None and _thread.get_ident() != self._ident:
            self._thread.join(timeout)

    def _hand_in(self, handle: TimerHandle) -> TimerHandle:
        if self._closed:
            raise RuntimeError("this timer is closed; nothing was scheduled")
        if handle.when == math.inf:
            return handle
        incoming = self._incoming
        incoming.append(handle)
        # The thread first says until when it sleeps and then looks here once more; we do it in the other
        # order, so one of us sees the other.
        if handle.when <= self._wake_at or not len(incoming) % _BATCH:
            self._alarm.put(None)
        if not self._owner:
            self._start()
        return handle

    def _count_cancel(self) -> None:
        self._cancelled = number = next(self._cancels)
        if not number % 64 and number - self._compacted_at > self.pending // 2:
            self._alarm.put(None)

    def _start(self) -> None:
        # A raw thread starts the real one: `Thread.start` takes a lock, which the function that our caller
        # interrupted may hold.
        claim: _Claim = {}
        try:
            if self._owner.setdefault(0, claim) is claim:
                _thread.start_new_thread(self._launch, (claim,))
        except BaseException:
            revoked = claim.setdefault(_VERDICT, _REVOKED) is _REVOKED
            if revoked and self._owner.get(0) is claim:
                self._owner.pop(0, None)
            raise

    def _launch(self, claim: _Claim) -> None:
        thread = threading.Thread(target=self._run, args=(claim,), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: this one will do
            self._run(claim)
        else:
            self._thread = thread

    def _run(self, claim: _Claim) -> None:
        if claim.setdefault(_VERDICT, _BEGUN) is not _BEGUN:
            return
        self._ident = _thread.get_ident()
        look = self._idle
        while not self._closed:
            self._wake_at = -math.inf
            with suppress(Empty):
                while True:
                    self._alarm.get_nowait()
            look = self._idle if self._take_in() else min(2 * look, _LONGEST_LOOK)
            self._run_due()
            self._wake_at = self._heap[0][0] if self._heap else math.inf
            if self._incoming or self._closed:  # whose alarm may have been taken above
                continue
            try:
                self._alarm.get(timeout=self._longest_wait(look))
            except Empty:
                if not self._heap and self._ends(claim):
                    return
        while True:
            self._run_soon()
            if self._ends(claim):  # else somebody who found it open has handed in behind that
                return

    def _run_soon(self) -> None:
        """Run what has no time, for whoever handed it in counts on it; drop the rest."""
        self._take_in()
        soon = sorted(entry for entry in self._heap if entry[0] == -math.inf)
        self._heap.clear()
        for _, _, handle in soon:
            handle._run()  # pyright: ignore[reportPrivateUsage]  # the two are one thing

    def _take_in(self) -> bool:
        heap, incoming = self._heap, self._incoming
        some = bool(incoming)
        while incoming:
            handle = incoming.popleft()
            if not handle.cancelled:
                heapq.heappush(heap, (handle.when, next(self._order), handle))
        if self._cancelled - self._compacted_at > len(heap) // 2:
            self._compacted_at = self._cancelled
            heap[:] = [entry for entry in heap if not entry[2].cancelled]
            heapq.heapify(heap)
        return some

    def _run_due(self) -> None:
        heap = self._heap
        now = self._now()
        while heap and (heap[0][0] <= now or heap[0][2].cancelled) and not self._closed:
            heapq.heappop(heap)[2]._run()  # pyright: ignore[reportPrivateUsage]  # the two are one thing

    def _longest_wait(self, look: float) -> float:
        if not self._heap:
            return self._idle
        if self._unsteer is not None:
            return look
        remaining = self._heap[0][0] - self._now()
        return min(look, max(remaining, _SHORTEST_LOOK if self.is_steered else 0.0))

    def _ends(self, claim: _Claim) -> bool:
        # Whoever hands in looks for an owner afterwards; we give it up first and look for hand-ins then.
        self._owner.pop(0, None)
        return not self._incoming or self._owner.setdefault(0, claim) is not claim


# A forked child has the timers of its parent, and none of their threads.
_timers: weakref.WeakSet[Timer] = weakref.WeakSet()


def _after_fork() -> None:
    for timer in _timers:
        timer._begin_anew()  # pyright: ignore[reportPrivateUsage]  # of this module


os.register_at_fork(after_in_child=_after_fork)

_default = Timer()


def default_timer() -> Timer:
    """Return the timer of scopes that belong to no runtime. It is never closed; its thread ends when idle."""
    return _default
