"""`ProcessLock`: which processes that have opened the log still live.

Each process that opens a log takes a number that no other had, and locks the byte of that number in the
file `owners.lock`. The lock belongs to the open file, not to the process: the system gives it back when the
process is gone, however it went, and nobody else who opens and closes the file, to copy it perhaps, gives it
back by that. A forked child would have the open file, too, so it closes it before anything else.

Behind those bytes lies the turn to write, see `WriteTurn`: a byte for who wishes for it, and then as many as
the number of the process that has it, and one more, so that it can be told which one that is.
"""

import ctypes
import errno
import fcntl
import os
import struct
import threading
import weakref
from pathlib import Path

from intermission_storage.errors import LogReadOnlyError, StorageError

__all__ = ["ProcessLock", "anybody_lives"]

# struct flock of Linux on 64 bits: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi4x")
_TO_THE_END = 0
_WISH = 1 << 40
_TURN = _WISH + 1

# The call of the system with the GIL kept: it asks and never waits, and comes several times with each commit.
# Python's own lets go of the GIL, and has it back beside a thread that computes only a switch interval later.
_call = ctypes.PyDLL(None, use_errno=True).fcntl
_call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p]

_locks: "weakref.WeakSet[ProcessLock]" = weakref.WeakSet()


class ProcessLock:
    """This process's place in the file, and a look at the others'.

    The file is opened when it is needed first. Any method may then raise a `LogReadOnlyError`, if it cannot
    be written, or another `StorageError`.
    """

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        self._path = _path(directory)
        self._flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._file: int | None = None  # None: nobody has asked yet
        self._opening = threading.Lock()
        self._number = 0
        pid = os.getpid()
        self._take_turn = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _TURN, 1 + pid, 0)
        self._leave_turn = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, _TURN, 1 + pid, 0)
        _locks.add(self)

    def take(self, number: int) -> None:
        """Live under `number` until `close`, or until this process ends."""
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
        try:
            _fcntl(self._open(), fcntl.F_OFD_SETLK, wanted)
        except OSError as error:  # somebody else has that number, or the file system knows no locks
            self.close()
            raise StorageError(f"{self._path} cannot be locked: {error}") from error
        self._number = number

    def is_alive(self, number: int) -> bool:
        """Return whether the process of that number lives."""
        if number == self._number:
            return True
        try:
            return _is_locked(self._open(), number, 1)
        except FileNotFoundError:
            return False  # for who only reads: nobody has opened the log since the file was lost

    def take_turn(self) -> bool:
        """Take the turn to write, and return whether it was free."""
        return self._set(self._take_turn)

    def give_turn_back(self) -> None:
        """Undo `take_turn`."""
        if self._file is not None:  # else it was given back with the file
            _fcntl(self._file, fcntl.F_OFD_SETLK, self._leave_turn)

    def who_has_turn(self) -> int | None:
        """Return the process that has the turn, if it is another one."""
        found = _lock_of_another(self._open(), _TURN, 1)
        return None if found is None else found[1] - 1

    def wish_for_turn(self) -> bool:
        """Say that this process waits for the turn, and return whether it is the only one that says so."""
        return self._set(_FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _WISH, 1, 0))

    def wish_no_more(self) -> None:
        """Undo `wish_for_turn`."""
        self._set(_FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, _WISH, 1, 0))

    def is_turn_wished(self) -> bool:
        """Return whether another process waits for the turn."""
        return _is_locked(self._open(), _WISH, 1)

    def close(self) -> None:
        """Give the place back."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def leave_to_parent(self) -> None:
        """In a fork: let go of the parent's open file."""
        self._opening = threading.Lock()
        self.close()

    def _set(self, lock: bytes) -> bool:
        file = self._file
        try:
            _fcntl(self._open() if file is None else file, fcntl.F_OFD_SETLK, lock)
        except BlockingIOError:
            return False
        except PermissionError:  # of the lock; what the file system says of one that is taken
            return False
        except OSError as error:
            raise StorageError(f"{self._path} cannot be locked: {error}") from error
        return True

    def _open(self) -> int:
        with self._opening:
            if self._file is None:
                self._file = self._opened()
            return self._file

    def _opened(self) -> int:
        try:
            return os.open(self._path, self._flags, 0o666)
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise LogReadOnlyError(f"{self._path} cannot be written: {error}") from error
        except OSError as error:
            raise StorageError(f"{self._path} cannot be opened: {error}") from error


def anybody_lives(directory: Path) -> bool:
    """Return whether any process has the log open for writing."""
    try:
        file = os.open(_path(directory), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_locked(file, 0, _TO_THE_END)
    finally:
        os.close(file)


def _path(directory: Path) -> Path:
    return directory / "owners.lock"


def _is_locked(file: int, start: int, length: int) -> bool:
    return _lock_of_another(file, start, length) is not None


def _lock_of_another(file: int, start: int, length: int) -> tuple[int, int] | None:
    """Return the first byte and the length of somebody else's lock on one of these bytes."""
    asked = ctypes.create_string_buffer(
        _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0), _FLOCK.size
    )
    _fcntl(file, fcntl.F_OFD_GETLK, asked)
    kind, _, start, length, _ = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else (start, length)


def _fcntl(file: int, command: int, lock: "bytes | ctypes.Array[ctypes.c_char]") -> None:
    while _call(file, command, lock) < 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def _leave_to_parent() -> None:
    for lock in _locks:
        lock.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
