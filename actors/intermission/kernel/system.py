"""`ActorSystem`: starts actors, holds them while they live, and stops them all."""

import logging
import threading
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from pykka._envelope import Envelope

from intermission.kernel.actor import Actor, Cell, StopNow
from intermission.kernel.clock import Clock, SystemClock
from intermission.kernel.dispatcher import Dispatcher, seat_here
from intermission.kernel.ref import NOBODY, ActorRef, SystemClosedError, SystemForkedError
from intermission.kernel.supervision import Supervision

__all__ = ["ActorSystem"]

_logger = logging.getLogger("intermission.kernel")

A = TypeVar("A", bound=Actor)

_PATIENCE = 0.1  # seconds without a stop, until `close` takes the threads for held and starts another
_HELPERS = 16  # how many of those it starts at most


class ActorSystem:
    """Actors on one dispatcher. A context manager that closes itself.

    The system holds its actors: an actor that nobody has a reference to lives on until it stops.

    Args:
        dispatcher: Whose threads the actors run on; closed with the system. By default one of its own.
        clock: What restarts are counted by.
    """

    def __init__(self, *, dispatcher: Dispatcher | None = None, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._dispatcher = dispatcher or Dispatcher()
        self._lock = threading.Lock()
        # In the order in which they were started. Taking out needs no lock.
        self._cells: dict[Cell, None] = {}
        self._closing = False
        self._closed = threading.Event()
        self._ends: SimpleQueue[Cell] | None = None

    def start(
        self, cls: type[A], *args: Any, supervision: Supervision | None = None, **kwargs: Any
    ) -> ActorRef[A]:
        """Make an actor, `cls(*args, **kwargs)`, start it and return its reference.

        `__init__` runs here, `on_start` on the dispatcher before the first message. An actor that is started
        by another one, in a hook of that, is its child: `close` stops it first.

        Args:
            supervision: What becomes of the actor when it fails; by default it stops.

        Raises:
            SystemClosedError: The system is closed, or about to be.
            SystemForkedError: See there.
            Exception: Whatever `__init__` raises; the actor was never started then.
        """
        if self._dispatcher.forked:
            raise SystemForkedError
        self._dispatcher.begin()
        cell = cls._create_actor_inbox()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
        cell.system = self
        cell.dispatcher = self._dispatcher
        if supervision is not None:
            cell.supervision = supervision
        parent = _cell_here()
        if parent is not None:
            cell.depth = parent.depth + 1
        with self._lock:
            closing = self._closing
        if closing:
            raise _closed(cls)
        actor = cell.make(cls, args, kwargs)
        try:
            with self._lock:
                if self._closing:
                    raise _closed(cls)
                self._cells[cell] = None
            actor._start_actor_loop()  # pyright: ignore[reportPrivateUsage] - a hook of Pykka's
        except BaseException as error:  # also an interrupt, which must not leave half an actor behind
            if cell in self._cells:
                cell.put(Envelope(StopNow(), NOBODY))
                cell.wake()
            else:
                cell.give_up(str(actor.actor_ref), error)
            raise
        return cast("ActorRef[A]", actor.actor_ref)

    def forget(self, cell: Cell) -> None:
        """Let go of an actor that has ended. For cells."""
        self._cells.pop(cell, None)
        ends = self._ends
        if ends is not None:
            ends.put(cell)

    def close(self, timeout: float = 5.0) -> None:
        """Stop all actors, children before those who started them, and end the dispatcher's threads.

        An actor that is in the middle of a message ends it first; what waits behind it is not handled, and
        who asked gets `ActorDeadError`. Every `on_stop` has run when this returns. Idempotent. An actor may
        call it; that one stops when its handler has returned. In a process that was forked nothing happens.

        Args:
            timeout: Seconds to wait for the actors. Those that are still busy by then are named in the log;
                each of them stops as soon as its handler returns, if ever.
        """
        if self._dispatcher.forked:
            return
        with self._lock:
            first, self._closing = not self._closing, True
        caller = _cell_here()
        if not first:
            if caller is None or caller.system is not self:  # else the first one may wait for this one
                self._closed.wait(timeout)
            return
        deadline = time.monotonic() + timeout
        try:
            if caller is None:
                self._stop_all(deadline, None)
            else:
                with self._dispatcher.blocking():
                    self._stop_all(deadline, caller)
        finally:
            # An actor does not wait for the threads: one of them may hold somebody who asks it.
            left = 0.0 if caller else max(_PATIENCE, deadline - time.monotonic())
            self._dispatcher.close(left)
            self._closed.set()

    def _stop_all(self, deadline: float, caller: Cell | None) -> None:
        ends = self._ends = SimpleQueue[Cell]()
        helpers = _HELPERS
        # None are added any more, but a few may end by themselves.
        waves: dict[int, list[Cell]] = {}
        for cell in self._cells.copy():
            waves.setdefault(cell.depth, []).append(cell)
        for depth in sorted(waves, reverse=True):
            for cell in reversed(waves[depth]):
                cell.put(Envelope(StopNow(), NOBODY))
            pending = {
                cell
                for cell in waves[depth]
                if cell in self._cells and not (caller and cell.waits_for(caller))
            }
            while pending and (left := deadline - time.monotonic()) > 0:
                try:
                    pending.discard(ends.get(timeout=min(_PATIENCE, left)))
                except Empty:
                    # Whoever has the threads may never give them back; the others need not wait for that.
                    helpers -= 1
                    if helpers >= 0:
                        self._dispatcher.grow()
            if pending:
                names = sorted(str(cell.actor and cell.actor.actor_ref) for cell in pending)
                _logger.warning("still busy when their system was closed: %s", ", ".join(names[:10]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cell_here() -> Cell | None:
    seat = seat_here()
    return seat.item if seat is not None and isinstance(seat.item, Cell) else None


def _closed(cls: type[Actor]) -> SystemClosedError:
    return SystemClosedError(f"{cls.__name__} was not started: its actor system is closed, or about to be")
