"""`MemoryEventLog`: for tests and the first minute. It encodes and refuses as the log on disk does."""

import bisect
import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, Unpack

from intermission_storage.admission import HeldError, Position, Request, admit, token_after
from intermission_storage.codec import (
    decode_segment,
    decode_value,
    encode_record,
    encode_segment,
    encode_value,
)
from intermission_storage.errors import ClaimedError, ConflictError, LogClosedError, StorageError
from intermission_storage.log import BatchOptions, Done, check_batch, check_index_key, check_page, waited
from intermission_storage.log_metrics import LogMetrics
from intermission_storage.record import Appended, Claim, Head, IndexEntry, Owner, Record

__all__ = ["MemoryEventLog"]

logger = logging.getLogger("intermission.storage")

_IndexKey = tuple[str, tuple[str, ...]]


def _begin() -> Position[Owner]:
    return Position()


@dataclass(slots=True)
class _Stream:
    position: Position[Owner] = field(default_factory=_begin)
    lasts: list[int] = field(default_factory=list[int])
    segments: list[bytes] = field(default_factory=list[bytes])
    index: set[_IndexKey] = field(default_factory=set[_IndexKey])

    def extend(self, records: list[bytes]) -> None:
        self.position.last += len(records)
        self.lasts.append(self.position.last)
        self.segments.append(encode_segment(records))


_NOWHERE: Position[Owner] = Position()
"""Where a stream stands that is not there. Nobody changes it."""


class _Store:
    """What the logs share that were made of each other."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.streams: dict[str, _Stream] = {}
        self.index: dict[_IndexKey, tuple[str, bytes]] = {}
        self.tokens = itertools.count(1)
        self.owners: set[Owner] = set()
        self.handles = itertools.count(1)
        self.metrics = LogMetrics()  # written by whoever has the lock
        self.following = 0  # who waits for a change; an interrupt may leave it too high


class MemoryEventLog:
    """An event log that is gone with the process.

    Args:
        share: Another memory log: the two then are one log, opened twice, and each is an owner of its own.
    """

    def __init__(self, *, share: "MemoryEventLog | None" = None) -> None:
        self._store: _Store = _Store() if share is None else share._store
        with self._store.changed:
            self._owner = Owner(f"memory.{next(self._store.handles)}", os.getpid(), socket.gethostname())
            self._store.owners.add(self._owner)
        self._closed = False

    @property
    def owner(self) -> Owner:
        """See `EventLog.owner`."""
        return self._owner

    def submit(
        self, stream: str, records: Sequence[Record], done: Done, **options: Unpack[BatchOptions]
    ) -> None:
        """See `EventLog.submit`. `done` is called before this returns; "durable" means: in memory."""
        request = Request(stream, **options)
        check_batch(request, records)
        request.put, request.drop = tuple(request.put), tuple(request.drop)
        request.needs = tuple(request.needs)
        for entry in (*request.put, *request.drop, *request.needs):
            check_index_key(entry.index, entry.key)
        encoded = [encode_record(record) for record in records]
        values = [encode_value({"value": entry.value}) for entry in request.put]
        also = {name: [encode_record(record) for record in more] for name, more in request.also.items()}
        with self._store.changed:
            self._check_open()
            began, metrics = time.perf_counter(), self._store.metrics
            try:
                outcome: Appended | StorageError = self._commit(request, encoded, values, also)
            except StorageError as refused:
                outcome = refused
                metrics.refused += 1
            else:
                metrics.batches += 1
                metrics.records += len(encoded) + sum(map(len, also.values()))
                metrics.committed(1, began)
            if self._store.following:
                self._store.changed.notify_all()
        try:
            done(outcome)
        except (Exception, SystemExit):
            logger.exception("what waited for a commit of stream %r failed", stream)

    def append(self, stream: str, records: Sequence[Record], **options: Unpack[BatchOptions]) -> Appended:
        """See `EventLog.append`."""
        return waited(lambda done: self.submit(stream, records, done, **options))

    def delete(self, stream: str, *, token: int | None = None, take_over: bool = False) -> bool:
        """See `EventLog.delete`."""
        with self._store.changed:
            self._check_open()
            began = time.perf_counter()
            self._admit(Request(stream, token=token, take_over=take_over))
            found = self._store.streams.pop(stream, None)
            if found is None:
                return False
            self._store.metrics.batches += 1
            self._store.metrics.committed(1, began)
            for key in found.index:
                del self._store.index[key]
            return found.position.last > 0 or bool(found.index)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        check_page(after, limit)
        with self._store.changed:
            self._check_open()
            found = self._store.streams.get(stream)
            if found is None:
                return []
            first = bisect.bisect_right(found.lasts, after)
            segments = list(zip(found.lasts[first:], found.segments[first:], strict=True))
        records = (record for last, raw in segments for record in decode_segment(raw, last))
        return list(itertools.islice((record for record in records if record.seq > after), limit))

    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        """See `EventLog.follow`."""
        with self._store.changed:
            self._store.following += 1
            try:
                self._store.changed.wait_for(
                    lambda: self._closed or self.head(stream).position > after, timeout
                )
            finally:
                self._store.following -= 1
            return self.read(stream, after=after)

    def head(self, stream: str) -> Head:
        """See `EventLog.head`."""
        with self._store.changed:
            self._check_open()
            found = self._store.streams.get(stream)
            if found is None:
                return Head(0)
            position = found.position
            if position.owner is None:
                return Head(position.last)
            alive = position.owner in self._store.owners
            return Head(position.last, Claim(position.token, position.owner, alive))

    def streams(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """See `EventLog.streams`."""
        check_page(0, limit)
        with self._store.changed:
            self._check_open()
            names = sorted(name for name, found in self._store.streams.items() if found.lasts)
        return [name for name in names if after is None or name > after][:limit]

    def index(
        self,
        index: str,
        prefix: Iterable[str] = (),
        *,
        after: IndexEntry | None = None,
        limit: int | None = None,
    ) -> list[IndexEntry]:
        """See `EventLog.index`."""
        check_page(0, limit)
        below = tuple(prefix)
        check_index_key(index, below)
        check_index_key(index, () if after is None else after.key)
        with self._store.changed:
            self._check_open()
            found = sorted(item for item in self._store.index.items() if item[0][0] == index)
        entries = (
            IndexEntry(index, key, decode_value(raw)["value"], stream)
            for (_, key), (stream, raw) in found
            if key[: len(below)] == below and (after is None or key > after.key)
        )
        return list(itertools.islice(entries, limit))

    def metrics(self) -> Mapping[str, Any]:
        """See `Measured.metrics`: of this log, however often it is opened. A commit is one batch."""
        return self._store.metrics.snapshot()

    def close(self) -> None:
        """See `EventLog.close`. The records are dropped with the last log that shares them."""
        with self._store.changed:
            self._closed = True
            self._store.owners.discard(self._owner)
            self._store.changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _commit(
        self, request: Request, records: list[bytes], values: list[bytes], also: dict[str, list[bytes]]
    ) -> Appended:
        self._admit(request)
        self._check_entries(request)
        for other in also:
            self._admit(Request(other))
        stream = self._store.streams.get(request.stream)
        if stream is None:
            stream = self._store.streams[request.stream] = _Stream()
        position = stream.position
        if request.claim:
            position.token, position.owner = next(self._store.tokens), self._owner
        if records:
            stream.extend(records)
        for other, more in also.items():
            self._store.streams.setdefault(other, _Stream()).extend(more)
        for entry, value in zip(request.put, values, strict=True):
            self._put(request.stream, (entry.index, entry.key), value)
        for entry in request.drop:
            if (entry.index, entry.key) in stream.index:
                stream.index.discard((entry.index, entry.key))
                del self._store.index[entry.index, entry.key]
        if request.release:
            position.token, position.owner = 0, None
        return Appended(position.last, token_after(request, position))

    def _check_entries(self, request: Request) -> None:
        for entry in request.needs:
            stream, raw = self._store.index.get((entry.index, entry.key), (None, b""))
            if stream != request.stream or decode_value(raw)["value"] != entry.value:
                found = self._store.streams.get(request.stream)
                raise ConflictError(
                    request.stream,
                    expected=request.expected,
                    actual=0 if found is None else found.position.last,
                    lacking=(entry.index, entry.key),
                )

    def _put(self, stream: str, key: _IndexKey, value: bytes) -> None:
        before = self._store.index.get(key)
        if before is not None:
            self._store.streams[before[0]].index.discard(key)
        self._store.index[key] = (stream, value)
        self._store.streams[stream].index.add(key)

    def _admit(self, request: Request) -> None:
        found = self._store.streams.get(request.stream)
        position = _NOWHERE if found is None else found.position
        owner = position.owner
        try:
            admit(request, position, held=owner in self._store.owners)
        except HeldError:
            assert owner is not None
            raise ClaimedError(request.stream, owner) from None

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError("this memory log was closed")
