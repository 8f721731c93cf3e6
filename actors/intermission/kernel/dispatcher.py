"""`Dispatcher`: the few threads on which all actors run."""

import logging
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Protocol

__all__ = ["Activatable", "Dispatcher", "Seat", "blocking_here", "process", "seat_here"]

_logger = logging.getLogger("intermission.kernel")


class Activatable(Protocol):
    """What a dispatcher runs: most often an actor's mailbox."""

    def activate(self) -> None:
        """Do a limited piece of work; called on a thread of the dispatcher."""
        ...


class Seat:
    """What a thread of a dispatcher is doing.

    Attributes:
        item: What it activates at the moment, or `None`.
        activations: How many it has taken from the queue.
    """

    __slots__ = ("activations", "dispatcher", "item")

    def __init__(self, dispatcher: "Dispatcher") -> None:
        self.dispatcher = dispatcher
        self.item: Activatable | None = None
        self.activations = 0


class _Thread(threading.local):
    seat: Seat | None = None


_thread = _Thread()


def seat_here() -> Seat | None:
    """Return the seat of the calling thread, or `None` if it belongs to no dispatcher."""
    return _thread.seat


@contextmanager
def blocking_here() -> Generator[None]:
    """Give the dispatcher whose thread this is one more while the block lasts; elsewhere do nothing."""
    seat = _thread.seat
    if seat is None or seat.item is None:
        yield
    else:
        with seat.dispatcher.blocking():
            yield


class _Process:
    """Tells a process from the one that it was forked from, without a system call."""

    def __init__(self) -> None:
        self.mark = object()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.mark = object()


process = _Process()
"""The process that this is. Its `mark` is another object in each process that is forked."""


class Dispatcher:
    """A pool of daemon threads that take what is ready from one queue, in order.

    Args:
        threads: How many. Only one at a time runs Python code, so more of them bring more changes from one
            to the other and no more speed; a thread that waits in `ask` is replaced meanwhile anyway.
        throughput: How many messages an actor handles before it goes to the back of the queue.
        name: What the threads are called; a number follows.
        later: Start them with `begin`, which the first actor calls, and not now.

    Raises:
        ValueError: `threads` or `throughput` is less than 1.
    """

    def __init__(
        self,
        *,
        threads: int = 1,
        throughput: int = 64,
        name: str = "intermission-actors",
        later: bool = False,
    ) -> None:
        if threads < 1 or throughput < 1:
            raise ValueError(f"threads and throughput are 1 or more, not {threads} and {throughput}")
        self.throughput = throughput
        self._name = name
        self.mark = process.mark
        self._ready: SimpleQueue[Activatable | None] = SimpleQueue()
        # `put` of a SimpleQueue may be interrupted by itself: a finaliser or a signal handler may schedule.
        self._put = self._ready.put
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._seats: set[Seat] = set()  # of these threads; each counts for itself
        self._activations = 0  # of threads that have ended
        self._started = 0
        self._closing = False
        self.closed = False
        self._to_start = threads
        if not later:
            self.begin()

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that made the dispatcher: its threads are not here."""
        return self.mark is not process.mark

    @property
    def activations(self) -> int:
        """How often a thread has taken up something that was scheduled."""
        with self._lock:
            return self._activations + sum(seat.activations for seat in self._seats)

    def begin(self) -> None:
        """Start the threads that were left for later, if they were."""
        if self._to_start:
            with self._lock:
                while self._to_start and not self._closing:
                    self._start_thread()
                    self._to_start -= 1

    def schedule(self, item: Activatable) -> None:
        """Have `item.activate()` called on a thread of the pool, once for each call of `schedule`.

        Takes no lock, so finalisers and signal handlers may call it. When the dispatcher is closed, the
        calling thread does what is left to do.
        """
        self._put(item)
        # In this order: either `close` sees the item, or the item's sender sees that it is closed.
        if self.closed:
            self._finish()

    def activate_here(self, item: Activatable) -> None:
        """Call `item.activate()` on the calling thread, which is none of the dispatcher's and may block."""
        before = _thread.seat
        seat = _thread.seat = Seat(self)
        seat.item = item
        try:
            _activate(item)
        finally:
            _thread.seat = before

    @contextmanager
    def blocking(self) -> Generator[None]:
        """Have one more thread while the block lasts, since the calling one waits for something."""
        grown = self.grow()
        try:
            yield
        finally:
            if grown:
                self._put(None)

    def grow(self) -> bool:
        """Start one more thread; return whether that was possible."""
        with self._lock:
            if self._closing:
                return False
            try:
                self._start_thread()
            except RuntimeError:  # the system has no more threads
                return False
            return True

    def close(self, timeout: float = 5.0) -> None:
        """End the threads. What they have begun, and what was scheduled before, is done first.

        Idempotent. A thread of the dispatcher may call it; that one ends after what it does now. In a process
        that was forked nothing happens.

        Args:
            timeout: Seconds to wait for the threads. One that does not come back by then ends when it does.
        """
        if self.forked:
            return
        with self._lock:
            first, self._closing = not self._closing, True
            threads = list(self._threads)
        if first:
            for _ in threads:
                self._put(None)
        deadline = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self.closed = True
        self._finish()

    def _start_thread(self) -> None:
        self._started += 1
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _work(self) -> None:
        seat = _thread.seat = Seat(self)
        with self._lock:
            self._seats.add(seat)
        take = self._ready.get
        while True:
            item = take()
            if item is None:
                break
            seat.item = item
            seat.activations += 1
            _activate(item)
            # Who waits for the next one must not keep this one in memory.
            seat.item = None
            del item
        with self._lock:
            self._threads.discard(threading.current_thread())
            self._seats.discard(seat)
            self._activations += seat.activations

    def _finish(self) -> None:
        """Do here what no thread will do any more."""
        before = _thread.seat
        seat = _thread.seat = Seat(self)
        ends = 0
        try:
            while True:
                try:
                    item = self._ready.get_nowait()
                except Empty:
                    break
                if item is None:
                    ends += 1
                    continue
                seat.item = item
                _activate(item)
        finally:
            _thread.seat = before
            # They are for threads that have not come back yet.
            for _ in range(ends):
                self._put(None)


def _activate(item: Activatable) -> None:
    try:
        item.activate()
    except BaseException:
        # A thread of the pool serves everybody: it outlives whatever one of them throws.
        _logger.exception("an activation of %r failed", item)
