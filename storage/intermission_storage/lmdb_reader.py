"""`LmdbReader`: everything that is read from a log. No transaction is open while something is decoded."""

import itertools
from collections.abc import Iterator
from typing import Any, cast

import lmdb

from intermission_storage.codec import decode_segment, decode_value
from intermission_storage.errors import LogCorruptError
from intermission_storage.lmdb_file import page_problems
from intermission_storage.lmdb_schema import (
    DIGEST_SIZE,
    digest,
    index_key,
    name_of,
    segment_key,
    segment_number,
    unpack_owner,
)
from intermission_storage.lmdb_store import LmdbStore
from intermission_storage.log import check_page
from intermission_storage.record import Claim, Head, IndexEntry, Record

__all__ = ["LmdbReader"]

_TRIES = 3


class LmdbReader:
    """Reads a store; see the methods of the same names in `EventLog`."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def read(self, stream: str, *, after: int, limit: int | None) -> list[Record]:
        """See `EventLog.read`."""
        check_page(after, limit)
        if limit == 0:
            return []
        key = digest(stream)
        segments: list[tuple[int, bytes]] = []
        with self._store.environment.reading() as transaction:
            cursor = transaction.cursor(self._store.databases.segments)
            for found, raw in _from(cursor, segment_key(key, after + 1), key):
                last = segment_number(found)
                segments.append((last, raw))
                # Numbers tell when these are enough.
                if limit is not None and last >= after + limit:
                    break
        records = [record for last, raw in segments for record in decode_segment(raw, last)]
        _check_numbers(stream, records, after)
        records = [record for record in records if record.seq > after]
        return records if limit is None else records[:limit]

    def head(self, stream: str) -> Head:
        """See `EventLog.head`."""
        with self._store.environment.reading() as transaction:
            position = self._store.databases.position(transaction, digest(stream))
            if position.owner is None:
                return Head(position.last)
            alive = self._store.is_alive(transaction, position.owner)
        return Head(position.last, Claim(position.token, unpack_owner(position.owner), alive))

    def streams(self, *, after: str | None, limit: int | None) -> list[str]:
        """See `EventLog.streams`."""
        check_page(0, limit)
        start = b"" if after is None else digest(after)
        with self._store.environment.reading() as transaction:
            cursor = transaction.cursor(self._store.databases.names)
            names = (item for item in _from(cursor, start, b"") if after is None or item[0] != start)
            found = _taken(names, limit)
        return [_name(key, raw) for key, raw in found]

    def index(
        self, index: str, prefix: tuple[str, ...], *, after: IndexEntry | None, limit: int | None
    ) -> list[IndexEntry]:
        """See `EventLog.index`."""
        check_page(0, limit)
        below = index_key(index, prefix)
        start = below if after is None else max(below, index_key(index, after.key))
        with self._store.environment.reading() as transaction:
            cursor = transaction.cursor(self._store.databases.index)
            entries = (item for item in _from(cursor, start, below) if after is None or item[0] != start)
            found = _taken(entries, limit)
        return [_entry(index, raw) for _, raw in found]

    def check_structure(self) -> list[str]:
        """See `Checkable.check_structure`."""
        for _ in range(_TRIES):
            # In a transaction, so that no page that it can see is used anew meanwhile.
            with self._store.environment.reading() as transaction:
                before = transaction.id()
                problems = page_problems(self._store.environment.path)
            if not problems or self._last_transaction() == before:
                return problems
        return []  # written to all the time: what looks wrong may be what is just being changed

    def _last_transaction(self) -> int:
        with self._store.environment.reading() as transaction:
            return transaction.id()


def _from(cursor: lmdb.Cursor, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    more = cursor.set_range(start)
    while more:
        key = bytes(cursor.key())
        if not key.startswith(prefix):
            return
        yield key, bytes(cursor.value())
        more = cursor.next()


def _taken(items: Iterator[tuple[bytes, bytes]], limit: int | None) -> list[tuple[bytes, bytes]]:
    return list(itertools.islice(items, limit))


def _check_numbers(stream: str, records: list[Record], after: int) -> None:
    # The checksums do not cover the keys, and so not the numbers.
    if not records:
        return
    first, last = records[0].seq, records[-1].seq
    if first > after + 1 or last - first + 1 != len(records):
        raise LogCorruptError(f"stream {stream!r} is damaged: records between {after} and {last} are missing")


def _name(key: bytes, raw: bytes) -> str:
    try:
        name = name_of(raw)
    except UnicodeDecodeError:
        name = ""
    if digest(name) != key:
        raise LogCorruptError(f"the name of a stream is damaged: {raw[:100]!r}")
    return name


def _entry(index: str, raw: bytes) -> IndexEntry:
    data: dict[str, Any] = decode_value(raw[DIGEST_SIZE:])
    stream = _name(raw[:DIGEST_SIZE], cast(bytes, data["stream"]))
    texts = cast("list[bytes]", data["key"])
    return IndexEntry(index, tuple(map(name_of, texts)), data["value"], stream)
