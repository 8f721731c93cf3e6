"""`LmdbEventLog`: the event log on disk."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from intermission_storage.admission import Request
from intermission_storage.codec import encode_record
from intermission_storage.errors import LogClosedError, LogReadOnlyError
from intermission_storage.lmdb_batch import Job, OpenOwner
from intermission_storage.lmdb_reader import LmdbReader
from intermission_storage.lmdb_schema import digest, index_change, index_key
from intermission_storage.lmdb_stores import STORES
from intermission_storage.log import BatchOptions, Done, check_batch, waited
from intermission_storage.record import Appended, Head, IndexEntry, Owner, Record

__all__ = ["LmdbEventLog"]

_MAP_SIZE = 64 << 30  # bytes of address space, not of disk
_TURN_TIMEOUT = 30.0  # seconds
_POLL = 0.02  # seconds between looks for what another process has committed


class LmdbEventLog:
    """An event log in the directory `path`, which is created if it is missing.

    An append is reported when its commit is on the disk. One thread commits what waits together, in one
    transaction, so that many writers share a flush. Several logs may be opened on one path: in one process
    they share one environment, and each is an owner of its own; other processes may read and append beside.

    Args:
        path: The directory. It must be on a local disk.
        sync: Whether a commit is on the disk when it is reported. `False` is faster, survives the death of
            the process, and may lose or damage the log when the machine goes down.
        map_size: Bytes of address space to begin with; the file grows only with what is in it.
        max_size: Bytes that the log may grow to, beyond which an append is a `LogFullError`; `None` for no
            limit but the disk's.
        turn_timeout: How many seconds an append waits for another process to end its commit, before it is a
            `LogBusyError`.
        read_only: Only read: an append is a `LogReadOnlyError`, and a log that is not there is not created.

    Raises:
        LogCorruptError: There is something else at `path`, or the log is damaged.
        LogVersionError: A newer version of this library wrote the log.
        LogReadOnlyError: The directory cannot be written, and `read_only` was not given.
        LogForkedError: This process is a fork of one that has opened the log.
        LogBusyError: Another process keeps the turn to write for too long.
        StorageError: The log cannot be opened.
        ValueError: It is open in this process with another `sync`, `max_size` or `turn_timeout`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: bool = True,
        map_size: int = _MAP_SIZE,
        max_size: int | None = None,
        turn_timeout: float = _TURN_TIMEOUT,
        read_only: bool = False,
    ) -> None:
        if not turn_timeout >= 0:
            raise ValueError(f"turn_timeout is {turn_timeout}: it is a number of seconds, and not below 0")
        self.path = Path(path)
        self._read_only = read_only
        self._store = STORES.take(
            self.path,
            sync=sync,
            map_size=map_size,
            max_size=max_size,
            read_only=read_only,
            turn_timeout=turn_timeout,
        )
        self._reader = LmdbReader(self._store)
        self._closing = threading.RLock()  # a second closer returns when the first has closed
        self._closed = False
        self._done = False
        try:
            # A reader claims nothing. Its process is asked for now, for the importing one may have forked.
            nobody = OpenOwner(b"", Owner("reader", os.getpid(), ""))
            self._opened = nobody if read_only else self._store.open_owner()
        except BaseException:
            STORES.give_back(self._store)
            raise

    @property
    def owner(self) -> Owner:
        """See `EventLog.owner`."""
        return self._opened.owner

    def submit(
        self, stream: str, records: Sequence[Record], done: Done, **options: Unpack[BatchOptions]
    ) -> None:
        """See `EventLog.submit`. `done` is called on the thread that commits."""
        encoded = [encode_record(record) for record in records]
        expected, token = options.pop("expected", None), options.pop("token", None)
        job = Job(stream, expected, token, digest(stream), encoded, self._opened, done)
        if options or not records:
            job.rest = request = Request(stream, **options)
            request.expected, request.token = expected, token
            check_batch(request, records)
            job.also = [
                (name, digest(name), [encode_record(record) for record in more])
                for name, more in request.also.items()
            ]
            job.needs = [(index_key(entry.index, entry.key), entry) for entry in request.needs]
            gone = [index_change(stream, entry, gone=True) for entry in request.drop]
            job.index = [index_change(stream, entry, gone=False) for entry in request.put] + gone
        self._submit(job)

    def append(self, stream: str, records: Sequence[Record], **options: Unpack[BatchOptions]) -> Appended:
        """See `EventLog.append`. Not to be called in a `done`: it would wait for its own thread."""
        self._check_waiting()
        return waited(lambda done: self.submit(stream, records, done, **options))

    def delete(self, stream: str, *, token: int | None = None, take_over: bool = False) -> bool:
        """See `EventLog.delete`."""
        self._check_waiting()
        request = Request(stream, token=token, take_over=take_over)

        def submit(done: Done) -> None:
            self._submit(
                Job(stream, None, token, digest(stream), (), self._opened, done, rest=request, delete=True)
            )

        return waited(submit).position > 0

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        self._check_open()
        return self._reader.read(stream, after=after, limit=limit)

    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        """See `EventLog.follow`. What another process commits is seen within some hundredths of a second."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            commits = self._store.commits.count
            if records := self.read(stream, after=after):
                return records
            left = _POLL if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return []
            self._store.commits.wait(commits, min(left, _POLL))

    def head(self, stream: str) -> Head:
        """See `EventLog.head`."""
        self._check_open()
        return self._reader.head(stream)

    def streams(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """See `EventLog.streams`."""
        self._check_open()
        return self._reader.streams(after=after, limit=limit)

    def index(
        self,
        index: str,
        prefix: Iterable[str] = (),
        *,
        after: IndexEntry | None = None,
        limit: int | None = None,
    ) -> list[IndexEntry]:
        """See `EventLog.index`."""
        self._check_open()
        return self._reader.index(index, tuple(prefix), after=after, limit=limit)

    def metrics(self) -> Mapping[str, Any]:
        """See `Measured.metrics`: of all logs that this process has open at the path, since the first."""
        return self._store.metrics.snapshot(0 if self._read_only else self._store.writer.waiting)

    def check_structure(self) -> list[str]:
        """See `Checkable.check_structure`: whether the file is sound as one of LMDB's, page by page."""
        self._check_open()
        return self._reader.check_structure()

    def close(self) -> None:
        """See `EventLog.close`. In a fork of the process that opened it, or as Python ends, it does nothing.

        Raises:
            RuntimeError: It is called in a `done`, whose thread it would wait for.
        """
        if self._store.environment.is_forked or sys.is_finalizing():  # nobody is left to be waited for
            self._closed = True
            return
        self._check_waiting()
        with self._closing:
            self._closed = True
            # Each step can be done again: a signal handler may close inside this close, or raise out of it.
            if not (self._read_only or self._done):
                self._store.close_owner(self._opened)
            if not self._done:
                STORES.give_back(self._store)
                self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, job: Job) -> None:
        if self._store.environment.is_forked:
            self._store.environment.check_usable()
        if self._read_only:
            raise LogReadOnlyError(f"the event log {self.path} is open for reading only; nothing was written")
        writer = self._store.writer
        writer.make_room()
        if self._closed:
            self._check_open()
        # If it is closed just here, the writer commits the job or refuses it, before or after what `close`
        # waits for. No lock makes the two steps one: a signal handler could not close the log under it.
        size = sum(map(len, job.records))
        if job.index:
            size += sum(len(change.value or b"") for change in job.index)
        if job.also:
            size += sum(sum(map(len, records)) for _, _, records in job.also)
        writer.submit(job, size)

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError(f"the event log {self.path} was closed")

    def _check_waiting(self) -> None:
        if self._store.is_writer():
            raise RuntimeError("this call waits for the thread that commits, and was made on it, in a done")
