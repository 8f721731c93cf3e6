"""`LmdbStore`: the log at one path as all of a process shares it: one environment, one writer."""

import contextlib
import itertools
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import lmdb

from intermission_storage.admission import Position
from intermission_storage.errors import LogBusyError, LogClosedError, StorageError
from intermission_storage.group_writer import GroupWriter
from intermission_storage.lmdb_batch import Job, LmdbBatch, OpenOwner
from intermission_storage.lmdb_environment import LmdbEnvironment
from intermission_storage.lmdb_file import mark_clean
from intermission_storage.lmdb_owners import ProcessLock
from intermission_storage.lmdb_schema import (
    Databases,
    PackedOwner,
    owner_key,
    owner_process,
    pack_owner,
    unpack_owner,
)
from intermission_storage.lmdb_turn import WriteTurn
from intermission_storage.log_metrics import LogMetrics
from intermission_storage.record import Owner
from intermission_storage.wakeup import Wakeup

__all__ = ["Commits", "LmdbStore"]

logger = logging.getLogger("intermission.storage")

_MAX_POSITIONS = 100_000  # streams whose position is remembered between commits


class LmdbStore:
    """What the opened logs of one path in one process share.

    Positions and claims are read in the transaction that writes. What an earlier transaction of this
    process read or wrote is believed as long as no other process has committed since, which LMDB's own
    transaction numbers tell.
    """

    def __init__(
        self,
        path: Path,
        *,
        sync: bool,
        map_size: int,
        max_size: int | None,
        read_only: bool,
        turn_timeout: float,
    ) -> None:
        self.sync = sync
        self.max_size = max_size
        self.turn_timeout = turn_timeout
        self._locks = ProcessLock(path, read_only=read_only)
        turn = WriteTurn(self._locks, path, turn_timeout)
        self.environment = LmdbEnvironment(
            path, turn, map_size=map_size, max_size=max_size, sync=sync, read_only=read_only
        )
        self.commits = Commits()
        self.metrics = LogMetrics()  # written by the thread that commits
        self._handles = itertools.count(1)
        self._writer: GroupWriter[Job] | None = None  # None: for reading only
        self._any_closed = False  # whether a job may come of an owner that was closed
        self._positions: dict[bytes, Position[PackedOwner]] = {}
        self._last_transaction = -1  # the one after which `_positions` is true; -1: it is not
        self._gone: set[bytes] = set()  # owners that are closed, and still stand among those that are not
        try:
            if read_only:
                with self.environment.reading() as transaction:
                    self.databases = self._open_databases(transaction, create=False)
                return
            self.databases, self._process = self.environment.write(self._set_up, reserve=True)
            self._locks.take(self._process)
            self.environment.write(self._sweep, reserve=True)
            self._writer = GroupWriter(self._commit_group, _refuse, name=f"intermission-log {path.name}")
        except BaseException:
            self.environment.close()
            self._locks.close()
            raise

    def open_owner(self) -> OpenOwner:
        """Write down a new owner of this process, which lives from now on, and return it."""
        packed = pack_owner(self._process, next(self._handles), Owner("", os.getpid(), socket.gethostname()))
        self._write_owners(owner_key(packed))
        return OpenOwner(packed, unpack_owner(packed))

    def close_owner(self, opened: OpenOwner) -> None:
        """Commit what an owner has submitted, and write down that it is gone: its claims are free."""

        def close() -> None:
            opened.closed = self._any_closed = True
            self._gone.add(owner_key(opened.packed))

        try:
            self._write_owners(None, first=close)
        except LogBusyError as error:
            # The claims are free when this process writes next to its owners, or ends.
            logger.warning("an owner of %s could not be removed: %s", self.environment.path, error)
        except LogClosedError:
            pass  # a signal handler has closed the store meanwhile, and with it every owner

    def _write_owners(self, new: bytes | None, *, first: Callable[[], None] = lambda: None) -> None:
        """On the thread that commits, behind what was submitted: add an owner, remove those that are gone.

        There, because a signal handler that closes a log could wait for a transaction that it interrupts.
        """
        errors: list[BaseException] = []

        def work(transaction: lmdb.Transaction) -> None:
            for gone in self._gone:
                transaction.delete(gone, db=self.databases.owners)
            if new is not None:
                transaction.put(new, b"", db=self.databases.owners)

        def write() -> None:
            try:
                first()
                self.environment.write(work, reserve=True)
                self._gone.clear()
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                errors.append(error)

        self.writer.flush(then=write)
        if errors:
            raise errors[0]

    @property
    def writer(self) -> GroupWriter[Job]:
        """The thread that commits jobs and then calls each one's `done`."""
        assert self._writer is not None, "the store is open for reading only"
        return self._writer

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until what was submitted is committed and reported, in a fork and for a reader not at all."""
        if self._writer is not None and not self.environment.is_forked:
            self._writer.flush(timeout)

    def is_writer(self) -> bool:
        """Return whether this is the thread that commits."""
        return self._writer is not None and self._writer.is_current()

    def is_alive(self, transaction: lmdb.Transaction, owner: PackedOwner) -> bool:
        """Return whether an owner lives: its log is open, and so is its process."""
        is_open = transaction.get(owner_key(owner), db=self.databases.owners) is not None
        return is_open and self._locks.is_alive(owner_process(owner))

    def close(self) -> None:
        """End the writer and close the environment; nothing may be submitted afterwards."""
        if self._writer is not None:
            self._writer.close()
        self.environment.close()
        self._locks.close()
        if self._writer is not None and self.sync:
            mark_clean(self.environment.path)

    def _set_up(self, transaction: lmdb.Transaction) -> tuple[Databases, int]:
        databases = self._open_databases(transaction, create=True)
        return databases, databases.next_number(transaction, b"process")

    def _open_databases(self, transaction: lmdb.Transaction, *, create: bool) -> Databases:
        where = str(self.environment.path)
        return Databases.open(self.environment.raw, transaction, create=create, where=where)

    def _sweep(self, transaction: lmdb.Transaction) -> None:
        cursor = transaction.cursor(self.databases.owners)
        more = cursor.first()
        while more:
            if self._locks.is_alive(owner_process(bytes(cursor.key()))):
                more = cursor.next()
            else:
                more = cursor.delete() and cursor.key() != b""

    def _commit_group(self, jobs: Sequence[Job]) -> None:
        if self._any_closed:
            for job in jobs:
                if job.owner.closed:
                    _refuse(job)
            jobs = [job for job in jobs if not job.owner.closed]
        if jobs:
            self._commit(jobs)

    def _commit(self, jobs: Sequence[Job]) -> None:
        try:
            self._commit_together(jobs)
        except BaseException as error:  # noqa: BLE001 - it is reported to each job, and the thread goes on
            if len(jobs) > 1 and not isinstance(error, LogBusyError):
                # One bad batch must not fail the others: each stream gets a transaction of its own, and if
                # that fails, each batch.
                for part in _parts(jobs):
                    self._commit(part)
                return
            failed = error if isinstance(error, StorageError) else _unexpected(error)
            self.metrics.refused += len(jobs)
            for job in jobs:
                job.outcome = failed
        self.commits.notify()
        for job in jobs:
            assert job.outcome is not None
            try:
                job.done(job.outcome)
            except BaseException:  # noqa: BLE001 - it is logged, and the thread goes on
                _log_failure(job)

    def _commit_together(self, jobs: Sequence[Job]) -> None:
        began = time.perf_counter()
        self._last_transaction = self.environment.write(
            lambda transaction: self._apply(transaction, jobs), reserve=all(job.delete for job in jobs)
        )
        done = [job for job in jobs if not isinstance(job.outcome, StorageError)]
        self.metrics.batches += len(done)
        self.metrics.refused += len(jobs) - len(done)
        self.metrics.records += sum(job.count for job in done)
        self.metrics.committed(len(jobs), began)

    def _apply(self, transaction: lmdb.Transaction, jobs: Sequence[Job]) -> int:
        """Do the jobs; return the transaction's number if it is certain to be used up by it, else -1."""
        number = transaction.id()
        if number != self._last_transaction + 1 or len(self._positions) > _MAX_POSITIONS:
            self._positions.clear()
        self._last_transaction = -1  # until the commit, and after one that fails: nothing is believed
        batch = LmdbBatch(transaction, self.databases, self._positions, self.is_alive)
        for job in jobs:
            try:
                job.outcome = batch.add(job)
            except StorageError as refused:
                job.outcome = refused
        batch.finish()
        return number if batch.certain else -1


class Commits:
    """Wakes those who wait for the next commit of this process."""

    def __init__(self) -> None:
        self._changed = Wakeup()
        self._count = 0

    @property
    def count(self) -> int:
        """How many there were."""
        return self._count

    def notify(self) -> None:
        """There was one."""
        self._count += 1
        self._changed.wake()

    def wait(self, count: int, timeout: float) -> None:
        """Return when there were more than `count`, or after `timeout` seconds."""
        self._changed.wait_until(lambda: self._count != count, timeout)


def _log_failure(job: Job) -> None:
    # Whoever listens to the log lines may fail as well, and the thread must go on.
    with contextlib.suppress(BaseException):
        logger.exception("what waited for a commit of stream %r failed", job.stream)


def _refuse(job: Job) -> None:
    try:
        job.done(LogClosedError("the event log was closed; nothing was written"))
    except BaseException:  # noqa: BLE001 - it is logged, and the thread goes on
        _log_failure(job)


def _parts(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return the jobs stream by stream, in their order, or one by one if they are of one stream."""
    streams: dict[bytes, list[Job]] = {}
    for job in jobs:
        streams.setdefault(job.key, []).append(job)
    return list(streams.values()) if len(streams) > 1 else [[job] for job in jobs]


def _unexpected(error: BaseException) -> StorageError:
    failed = StorageError(f"the log failed in a way that it should not: {error!r}. Nothing was written.")
    failed.__cause__ = error
    return failed
