"""`FaultyLog`: an event log that is slow, fails or stops where the test says so."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar, Unpack

from intermission.testing.held_batches import Batch, Done, HeldBatches, Outcome
from intermission.testing.sync import PATIENCE, Gate
from intermission_storage import (
    Appended,
    BatchOptions,
    EventLog,
    Head,
    IndexEntry,
    LogClosedError,
    MemoryEventLog,
    Owner,
    Record,
    StorageError,
)

__all__ = ["FaultyLog", "Where"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK = 0.05  # seconds between two looks whether the log has stopped, while somebody follows a stream

Where: TypeAlias = str | int | Callable[[str, Sequence[Record]], bool]
"""Which batch a fault is for: one whose last record is of this `Kind`, the n-th that is handed over from now
on (from 1), or one for whose stream and records the function returns true."""


class FaultyLog:
    """An event log that does what the log in it does, but for the faults that a test asks for.

    Each fault happens once: to the first batch that it is for, of those handed over after it was asked for.
    A batch may have one of each sort; it is held first.

    Args:
        log: The log in it, which `close` closes, too; a new memory log if there is none.
    """

    def __init__(self, log: EventLog | None = None) -> None:
        self._log: EventLog = MemoryEventLog() if log is None else log
        self._changed = threading.Condition()
        self._batches = 0
        self._gates: _Faults[Gate] = _Faults()
        self._errors: _Faults[BaseException] = _Faults()
        self._ends: _Faults[bool] = _Faults()
        self._held = HeldBatches()
        self._closed = False
        self._stopping = False  # from then on nothing goes in or comes out
        self._stopped = threading.Event()
        self._unanswered: list[Done] = []

    def hold(self, where: Where) -> Gate:
        """Return a gate at which a batch stops before it is committed, and those of its stream behind it.

        `submit` returns meanwhile, as that of a slow log does; `append` waits.
        """
        with self._changed:
            return self._gates.add(where, self._batches, Gate())

    def refuse(self, where: Where, error: BaseException) -> None:
        """Fail a batch instead of committing it.

        A `StorageError` is told by `done` or `append`, as a commit that went wrong. Any other error is a bug
        of a log, and raised by the call; if the batch was held, a `StorageError` tells of it.
        """
        with self._changed:
            self._errors.add(where, self._batches, error)

    def stop_at(self, where: Where, *, stored: bool = False) -> None:
        """Stop at a batch, as if the process died there: from then on nothing reaches the log in this one.

        No `done` is called any more, also none of a batch that came before and is committed; `submit` does
        nothing. Calls that wait or read raise `LogClosedError`, so that no thread of the test hangs. The
        owner lives on until `close`, which frees its claims as a death does, and tells those who still wait
        for their `done` that the log is closed.

        Args:
            where: The batch.
            stored: Whether it is committed, and only nobody hears of it. Otherwise it is lost.
        """
        with self._changed:
            self._ends.add(where, self._batches, stored)

    def wait_until_stopped(self, timeout: float = PATIENCE) -> None:
        """Wait until the log has stopped, and has stored what it was to store.

        Raises:
            TimeoutError: It has not within `timeout` seconds.
        """
        if not self._stopped.wait(timeout):
            raise TimeoutError(f"the log has not stopped within {timeout} s; {self.batches} batches came")

    @property
    def batches(self) -> int:
        """How many batches were handed over so far, whatever became of them."""
        with self._changed:
            return self._batches

    @property
    def owner(self) -> Owner:
        """See `EventLog.owner`."""
        return self._log.owner

    def submit(
        self, stream: str, records: Sequence[Record], done: Done, **options: Unpack[BatchOptions]
    ) -> None:
        """See `EventLog.submit`."""
        batch = Batch(stream, tuple(records), options)
        batch.check()
        with self._changed:
            if self._closed:
                raise LogClosedError("this log was closed")
            if self._stopping:
                self._unanswered.append(done)
                return
            self._batches += 1
            gate = self._gates.take(batch, self._batches)
            error = self._errors.take(batch, self._batches)
            end = self._ends.take(batch, self._batches)
            commit = partial(self._commit, batch, done, error, end)
            if self._held.keep(stream, gate, partial(self._commit_later, gate, commit, done)):
                return
        commit()

    def append(self, stream: str, records: Sequence[Record], **options: Unpack[BatchOptions]) -> Appended:
        """See `EventLog.append`."""
        outcomes: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            with self._changed:
                outcomes.append(outcome)
                self._changed.notify_all()

        self.submit(stream, records, done, **options)
        with self._changed:
            self._changed.wait_for(lambda: outcomes or self._stopping)
        if not outcomes:
            raise _stopped()
        if isinstance(outcomes[0], StorageError):
            raise outcomes[0]
        return outcomes[0]

    def delete(self, stream: str, *, token: int | None = None, take_over: bool = False) -> bool:
        """See `EventLog.delete`. It waits for what is held of the stream."""
        self._held.wait(stream)
        self._check_running()
        return self._log.delete(stream, token=token, take_over=take_over)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        self._check_running()
        return self._log.read(stream, after=after, limit=limit)

    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        """See `EventLog.follow`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK if deadline is None else max(0.0, deadline - time.monotonic())
            self._check_running()
            found = self._log.follow(stream, after=after, timeout=min(left, _LOOK))
            self._check_running()
            if found or left < _LOOK:
                return found

    def head(self, stream: str) -> Head:
        """See `EventLog.head`."""
        self._check_running()
        return self._log.head(stream)

    def streams(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """See `EventLog.streams`."""
        self._check_running()
        return self._log.streams(after=after, limit=limit)

    def index(
        self,
        index: str,
        prefix: Iterable[str] = (),
        *,
        after: IndexEntry | None = None,
        limit: int | None = None,
    ) -> list[IndexEntry]:
        """See `EventLog.index`."""
        self._check_running()
        return self._log.index(index, prefix, after=after, limit=limit)

    def close(self) -> None:
        """See `EventLog.close`. It waits for what is held, unless the log has stopped.

        Raises:
            TimeoutError: The test has not opened a gate.
        """
        with self._changed:
            self._closed = True
        if self._stopping:
            self._held.open_gates()
        self._held.wait()
        self._log.close()
        with self._changed:
            unanswered, self._unanswered = self._unanswered, []
        for done in unanswered:
            _call(done, _stopped())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _commit(self, batch: Batch, done: Done, error: BaseException | None, end: bool | None) -> None:
        with self._changed:
            if self._stopping or end is not None:
                self._unanswered.append(done)
                if self._stopping:
                    return
                self._stopping = True
                self._changed.notify_all()
        if end:
            batch.submit(self._log, lambda _: self._stopped.set())
        elif end is not None:
            self._stopped.set()
        elif isinstance(error, StorageError):
            _call(done, error)
        elif error is not None:
            raise error
        else:
            batch.submit(self._log, partial(self._answer, done))

    def _commit_later(self, gate: Gate | None, commit: Callable[[], None], done: Done) -> None:
        try:
            if gate is not None:
                gate.wait()
            commit()
        except StorageError as error:
            _call(done, error)
        except BaseException as error:  # noqa: BLE001 - the call that it belongs to is over
            _call(done, StorageError(f"the log failed in a way that it should not: {error!r}"))

    def _answer(self, done: Done, outcome: Outcome) -> None:
        with self._changed:
            if self._stopping:
                self._unanswered.append(done)
                return
        done(outcome)

    def _check_running(self) -> None:
        if self._stopping:
            raise _stopped()


class _Faults(Generic[T]):
    """The faults of one sort that have not happened yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[Batch, int], bool], T]] = []

    def add(self, where: Where, batches: int, fault: T) -> T:
        self._waiting.append((_matcher(where, batches), fault))
        return fault

    def take(self, batch: Batch, number: int) -> T | None:
        for waiting in self._waiting:
            if waiting[0](batch, number):
                self._waiting.remove(waiting)
                return waiting[1]
        return None


def _matcher(where: Where, batches: int) -> Callable[[Batch, int], bool]:
    """Return what tells the batch of a fault, which is asked for after so many batches."""
    if isinstance(where, str):
        return lambda batch, _: bool(batch.records) and batch.records[-1].kind == where
    if isinstance(where, int):
        if where < 1:
            raise ValueError(f"batch {where}: the next one is 1")
        return lambda _, number: number == batches + where
    return lambda batch, _: where(batch.stream, batch.records)


def _call(done: Done, outcome: Outcome) -> None:
    try:
        done(outcome)
    except (Exception, SystemExit):
        logger.exception("what waited for a commit failed")


def _stopped() -> LogClosedError:
    return LogClosedError("this log has stopped, as if its process had died; nothing was written or read")
