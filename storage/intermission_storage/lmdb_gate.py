"""`TransactionGate`: lets transactions through together, and a change of the map's size alone."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["TransactionGate"]


class TransactionGate:
    """A lock that many transactions share and a change of the map's size has for itself.

    LMDB's map may be resized only while the process has no transaction open; to do it under one is a crash,
    not an exception. The same holds for closing it. Who waits to be alone goes before new transactions.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        # By thread: an exception of a signal handler can come between a transaction and its end, and a thread
        # that comes again, or asks to be alone, is no longer in the one before.
        self._inside: set[int] = set()
        self._waiting_alone = 0
        self._alone = False

    def enter(self) -> None:
        """Go inside with other transactions; never twice in one thread. `leave` must follow."""
        with self._changed:
            while self._alone or self._waiting_alone:
                self._changed.wait()
            self._inside.add(threading.get_ident())

    def leave(self) -> None:
        """Undo `enter`."""
        with self._changed:
            self._inside.discard(threading.get_ident())
            if not self._inside:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Be inside with nobody else."""
        with self._changed:
            self._waiting_alone += 1
            try:
                self._inside.discard(threading.get_ident())
                while self._alone or self._inside:
                    self._changed.wait()
                self._alone = True
            finally:
                self._waiting_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
