"""`TransactionGate`: lets transactions through together, and a change of the map's size alone."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from intermission_storage.wakeup import Wakeup

__all__ = ["TransactionGate"]


class TransactionGate:
    """A lock that many transactions share and a change of the map's size has for itself.

    LMDB's map may be resized only while the process has no transaction open; to do it under one is a crash,
    not an exception. The same holds for closing it. Who waits to be alone goes before new transactions.

    Who enters says so before looking whether somebody is alone, and who will be alone says so before looking
    who is inside, so one of them sees the other; no lock has to be held over the two steps, which a signal
    handler that closes the log might find held.
    """

    def __init__(self) -> None:
        # By thread: an exception of a signal handler can come between a transaction and its end, and a thread
        # that comes again, or asks to be alone, is no longer in the one before.
        self._inside: set[int] = set()
        self._waiting_alone: set[object] = set()
        self._alone = threading.RLock()
        self._changed = Wakeup()

    def enter(self) -> None:
        """Go inside with other transactions; never twice in one thread. `leave` must follow."""
        me = threading.get_ident()
        self._inside.add(me)
        while self._waiting_alone:
            self._inside.discard(me)
            self._changed.wake()
            self._changed.wait_until(lambda: not self._waiting_alone)
            self._inside.add(me)

    def leave(self) -> None:
        """Undo `enter`."""
        self._inside.discard(threading.get_ident())
        if self._waiting_alone:
            self._changed.wake()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Be inside with nobody else."""
        waiting = object()
        try:
            self._waiting_alone.add(waiting)
            self._inside.discard(threading.get_ident())
            with self._alone:
                self._changed.wait_until(lambda: not self._inside)
                yield
        finally:
            self._waiting_alone.discard(waiting)
            self._changed.wake()
