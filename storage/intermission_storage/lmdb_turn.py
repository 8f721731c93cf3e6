"""`WriteTurn`: which process may write, with a limit to how long another one waits for that."""

import time
from pathlib import Path

from intermission_storage.errors import LogBusyError
from intermission_storage.lmdb_owners import ProcessLock

__all__ = ["WriteTurn"]

# Seconds that a process writes before it looks who waits, and for which it then lets them begin.
_TERM = 0.005
_FIRST_PAUSE, _LONGEST_PAUSE = 0.00005, 0.001  # seconds between looks whether the turn is free


class WriteTurn:
    """A lock between processes around each write transaction. In a process one thread at a time has it.

    LMDB has such a lock of its own, and is safe without this one; but who waits for LMDB's can be told
    nothing, and waits for as long as a process is stopped inside a transaction. This one is asked for again
    and again, up to a limit. It ends with its process, as LMDB's does.

    Who asks often would find it taken for ever by one who writes all the time, so who waits says so, and who
    writes looks for that now and then.

    Args:
        lock: Where it lies.
        path: The log, for the error.
        timeout: How many seconds to wait for it.
    """

    def __init__(self, lock: ProcessLock, path: Path, timeout: float) -> None:
        self._lock = lock
        self._path = path
        self._timeout = timeout
        self._next_look = 0.0

    def take(self) -> None:
        """Wait for the turn; `give_back` must follow.

        Raises:
            LogBusyError: Another process has it for too long.
        """
        if time.monotonic() >= self._next_look:
            self._let_others()
        if not self._lock.take_turn():
            self._wait()

    def give_back(self) -> None:
        """Undo `take`."""
        self._lock.give_turn_back()

    def _let_others(self) -> None:
        now = time.monotonic()
        self._next_look = now + _TERM
        while self._lock.is_turn_wished() and time.monotonic() < now + _TERM:
            _pause(_FIRST_PAUSE)

    def _wait(self) -> None:
        begun, pause, wished = time.monotonic(), _FIRST_PAUSE, False
        try:
            while not self._lock.take_turn():
                wished = wished or self._lock.wish_for_turn()
                if time.monotonic() - begun >= self._timeout:
                    raise LogBusyError(self._path, seconds=self._timeout, pid=self._lock.who_has_turn())
                _pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            if wished:
                self._lock.wish_no_more()
        self._next_look = time.monotonic() + _TERM


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - a lock of the system can be waited for only without any limit
