"""`LmdbEnvironment`: an LMDB environment as this process has it: grown safely, never used after a fork."""

import errno
import os
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import lmdb

from intermission_storage.errors import (
    LogClosedError,
    LogCorruptError,
    LogForkedError,
    LogFullError,
    LogReadOnlyError,
    StorageError,
)
from intermission_storage.lmdb_file import (
    check_length,
    check_pages,
    is_marked_clean,
    may_lock,
    reserve_lock_file,
)
from intermission_storage.lmdb_gate import TransactionGate
from intermission_storage.lmdb_turn import WriteTurn

__all__ = ["LmdbEnvironment"]

T = TypeVar("T")

# A thread takes a slot with its first read and keeps it until it ends, whether it reads or not: this must be
# more than the threads that a runner may have. A slot costs 64 bytes.
_MAX_READERS = 4096
_MAX_DATABASES = 8
_NO_ROOM = 1 << 16  # bytes; a disk that has less is full

# What makes room needs some itself, before: LMDB writes each page that it changes to a new place.
_MIN_RESERVE = 1 << 20  # bytes; or a sixteenth of `max_size`
_TOUCHED = b"touched"

_HOW_TO_READ = "LmdbEventLog(path, read_only=True) reads it."


_environments: "weakref.WeakSet[LmdbEnvironment]" = weakref.WeakSet()


def _mark_forked() -> None:
    for environment in _environments:
        environment.is_forked = True


os.register_at_fork(after_in_child=_mark_forked)


class LmdbEnvironment:
    """An open environment, with what LMDB leaves to its users.

    - The map grows while no transaction is open in the process, and follows other processes' growth.
    - In a child of a fork every use is a `LogForkedError`.
    - Errors of LMDB become errors of a log.

    Attributes:
        is_forked: Whether this process is a fork of the one that opened it.
        read_only: Whether it was opened only for reading.

    Args:
        path: The directory.
        turn: Taken for each write transaction.
        map_size: Bytes of address space to begin with. The file grows only with what is in it.
        max_size: Bytes that the map may grow to; `None` for no limit but the disk's.
        sync: Whether a commit is on the disk when it returns.
        read_only: Whether only reading is wanted.
    """

    def __init__(
        self,
        path: Path,
        turn: WriteTurn,
        *,
        map_size: int,
        max_size: int | None,
        sync: bool,
        read_only: bool,
    ) -> None:
        self.path = path
        self._turn = turn
        self.read_only = read_only
        self._max_size = max_size
        self._pid = os.getpid()
        self.is_forked = False
        _environments.add(self)
        self._gate = TransactionGate()
        self._closed = False
        self._env = self._open(map_size if max_size is None else min(map_size, max_size), sync, read_only)
        self._place = _identity(path)
        if not is_marked_clean(path):
            try:
                with self.reading():
                    check_pages(path)
            except BaseException:
                self.close()
                raise

    def _open(self, map_size: int, sync: bool, read_only: bool) -> lmdb.Environment:
        if self.path.exists() and not self.path.is_dir():
            raise LogCorruptError(
                f"{self.path} is no event log: a log is a directory. Nothing was changed in it."
            )
        check_length(self.path)
        lock = not read_only or may_lock(self.path)
        try:
            if not read_only:
                self.path.mkdir(exist_ok=True)
                reserve_lock_file(self.path, _MAX_READERS)
            env = lmdb.open(
                str(self.path),
                map_size=map_size,
                max_dbs=_MAX_DATABASES,
                max_readers=_MAX_READERS,
                sync=sync,
                readonly=read_only,
                create=not read_only,
                lock=lock,
            )
            env.reader_check()  # a killed process may have left its place in the table of readers
        except lmdb.Error as error:
            raise self._translated(error) from error
        except PermissionError as error:
            raise LogReadOnlyError(f"{self.path} cannot be written: {error}. {_HOW_TO_READ}") from error
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise LogFullError(f"the disk has no room for {self.path}: {error}") from error
            raise StorageError(f"{self.path} cannot be opened as an event log: {error}") from error
        return env

    @property
    def raw(self) -> lmdb.Environment:
        """The environment itself."""
        return self._env

    def check_usable(self) -> None:
        """Raise `LogForkedError` in a child of the process that opened it."""
        if self.is_forked:
            raise LogForkedError(
                f"{self.path} was opened by process {self._pid}, of which this one is a fork. Nothing was "
                "done. Open logs after forking, or start child processes with the spawn method."
            )

    def check_place(self) -> None:
        """Raise `StorageError` if another file lies at the path now: what is written here would be lost."""
        if _identity(self.path) != self._place:
            raise StorageError(
                f"the log at {self.path} was moved or removed while it is open in this process. "
                "Close what has it open before you open what is there now."
            )

    @contextmanager
    def reading(self) -> Generator[lmdb.Transaction]:
        """Open a read transaction. There must be no other one in it, and no user code."""
        self.check_usable()
        transaction = self._begin(write=False)
        try:
            yield transaction
        except lmdb.Error as error:
            raise self._translated(error) from error
        finally:
            transaction.abort()
            self._gate.leave()

    def write(self, work: Callable[[lmdb.Transaction], T], *, reserve: bool = False) -> T:
        """Run `work` in a write transaction and commit it; again, from its start, after the map has grown.

        Args:
            work: What to do. It must be one that can be done again.
            reserve: Whether to go beyond `max_size` if need be: for work that makes room, and for little.

        Raises:
            LogBusyError: Another process keeps the turn to write. Nothing was begun.
            StorageError: The transaction was rolled back.
        """
        self.check_usable()
        aged = False
        while True:
            self._turn.take()
            try:
                transaction = self._begin(write=True)
            except BaseException:
                self._turn.give_back()
                raise
            try:
                result = work(transaction)
                transaction.commit()
                break
            except lmdb.MapFullError as error:
                full = error
            except lmdb.Error as error:
                raise self._translated(error) from error
            finally:
                transaction.abort()  # nothing, after a commit
                self._gate.leave()
                self._turn.give_back()
            if not self._grow(reserve=reserve):
                if reserve or aged:
                    raise self._full() from full
                aged = True
                self._age()
        if reserve and self._max_size is not None:
            self._resize(lambda size: min(size, self._max_size or size))  # LMDB leaves what is in use
        return result

    def close(self) -> None:
        """Close it, once no transaction is open."""
        with self._gate.alone():
            if not self._closed and not self.read_only:
                self._env.sync(True)
            self._closed = True
            self._env.close()

    def _begin(self, *, write: bool) -> lmdb.Transaction:
        while True:
            self._gate.enter()
            try:
                if self._closed:
                    raise LogClosedError(f"the event log {self.path} was closed")
                return self._env.begin(write=write)
            except lmdb.MapResizedError:
                self._gate.leave()
            except lmdb.Error as error:
                self._gate.leave()
                raise self._translated(error) from error
            except BaseException:
                self._gate.leave()
                raise
            # Another process has grown the map: take its size, or, if that is beyond the limit, what it uses.
            self._resize(lambda _: self._max_size or 0)

    def _grow(self, *, reserve: bool) -> bool:
        """Make the map larger, and return whether that is allowed."""
        kept = max(_MIN_RESERVE, (self._max_size or 0) // 16) if reserve else 0
        limit = None if self._max_size is None else self._max_size + kept
        return self._resize(lambda size: size * 2 if limit is None else min(size * 2, max(limit, size)))

    def _age(self) -> None:
        # LMDB uses the pages that a commit has freed no sooner than in the second transaction after it. Where
        # there is no other place, an append just after a deletion needs a commit between the two.
        def touch(transaction: lmdb.Transaction) -> None:
            transaction.put(_TOUCHED, b"")
            transaction.delete(_TOUCHED)

        self.write(touch, reserve=True)

    def _full(self) -> LogFullError:
        return LogFullError(
            f"{self.path} has reached its max_size of {self._max_size} bytes. Nothing of the batch was "
            "written; reading and deleting still work, and deleting makes room."
        )

    def _resize(self, change: Callable[[int], int]) -> bool:
        """Give the map another size, while no transaction is open, and return whether it is another."""
        with self._gate.alone():
            if self._closed:
                return False
            size = self._env.info()["map_size"]
            wanted = change(size)
            if wanted != size:
                self._env.set_mapsize(wanted)
            return wanted != size

    def _translated(self, error: lmdb.Error) -> StorageError:
        match error:
            case _ if self._closed:  # by a signal handler, under this thread's transaction
                return LogClosedError(f"the event log {self.path} was closed")
            case lmdb.InvalidError() | lmdb.VersionMismatchError() | lmdb.CorruptedError():
                return LogCorruptError(f"{self.path} is no event log, or is damaged: {error}")
            case lmdb.NotFoundError() | lmdb.IncompatibleError():  # databases that should be there
                return LogCorruptError(f"{self.path} is no event log, or is damaged: {error}")
            case lmdb.PageNotFoundError() | lmdb.PanicError() | lmdb.BadChecksumError():
                return LogCorruptError(f"{self.path} is damaged: {error}")
            case _ if self._is_disk_full(error):
                return LogFullError(
                    f"the disk has no room for {self.path}: {error}. Nothing of the batch was written; "
                    "reading still works."
                )
            case lmdb.ReadonlyError():
                return LogReadOnlyError(f"{self.path} cannot be written: {error}. {_HOW_TO_READ}")
            case _:
                said = str(error).removeprefix(f"{self.path}: ")  # LMDB says the path itself of some
                return StorageError(f"{self.path}: {said}. Nothing was written.")

    def _is_disk_full(self, error: lmdb.Error) -> bool:
        if isinstance(error, lmdb.DiskError):
            return True
        # LMDB reports a write of which the disk took only a part as it reports a disk that fails.
        if os.strerror(errno.EIO) not in str(error):
            return False
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize < _NO_ROOM


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        status = (directory / "data.mdb").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
