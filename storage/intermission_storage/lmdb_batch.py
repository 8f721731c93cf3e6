"""`LmdbBatch`: what one write transaction does for the jobs that are committed together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import lmdb

from intermission_storage.admission import HeldError, Position, Request, admit, token_after
from intermission_storage.codec import decode_value, encode_segment
from intermission_storage.errors import ClaimedError, ConflictError, StorageError
from intermission_storage.lmdb_schema import (
    Databases,
    IndexChange,
    PackedOwner,
    name_bytes,
    pack_claim,
    segment_key,
    unpack_owner,
)
from intermission_storage.log import Done
from intermission_storage.record import Appended, IndexEntry, Owner

__all__ = ["Job", "LmdbBatch", "OpenOwner"]


@dataclass(slots=True)
class OpenOwner:
    """An opened log as an owner: as bytes, as its user sees it, and whether it takes jobs no more."""

    packed: PackedOwner
    owner: Owner
    closed: bool = False


@dataclass(slots=True)
class Job:
    """A batch of one stream, encoded, on its way to the writer.

    Attributes:
        key: The stream's digest.
        owner: Who submits it.
        rest: All that it asks, if that is more than `expected` and `token`.
        also: Records for other streams: the stream's name, its digest, the records.
        needs: Index entries that must be there, by their keys.
        outcome: How it went, once that is known.
    """

    stream: str
    expected: int | None
    token: int | None
    key: bytes
    records: Sequence[bytes]
    owner: OpenOwner
    done: Done
    index: Sequence[IndexChange] = ()
    rest: Request | None = None
    also: Sequence[tuple[str, bytes, Sequence[bytes]]] = ()
    needs: Sequence[tuple[bytes, IndexEntry]] = ()
    delete: bool = False
    outcome: Appended | StorageError | None = None

    @property
    def count(self) -> int:
        """How many records it has, those for other streams among them."""
        own = len(self.records)
        return own + sum(len(records) for _, _, records in self.also) if self.also else own


_IsAlive: TypeAlias = Callable[[lmdb.Transaction, PackedOwner], bool]


class LmdbBatch:
    """Does the jobs of one transaction; a stream's records are written by one put, at its end.

    Args:
        transaction: The write transaction.
        databases: Where to write.
        positions: Positions that are true in this transaction; it goes on with them, so after a transaction
            that fails they are true no longer.
        is_alive: Tells whether an owner lives.

    Attributes:
        certain: Whether it is certain to have written something, and so to have used up its number.
    """

    def __init__(
        self,
        transaction: lmdb.Transaction,
        databases: Databases,
        positions: dict[bytes, Position[PackedOwner]],
        is_alive: _IsAlive,
    ) -> None:
        self.certain = False
        self._positions = positions
        self._transaction = transaction
        self._databases = databases
        self._is_alive = is_alive
        self._segments: dict[bytes, list[bytes]] = {}

    def add(self, job: Job) -> Appended:
        """Do what a job asks, and return how it went.

        Raises:
            StorageError: The job is refused; nothing of it was done.
        """
        position = self._position(job.key)
        if job.token != (position.token or None) or job.expected not in {None, position.last}:
            self._admit(job.rest or Request(job.stream, job.expected, job.token), position)
        elif position.last and job.rest is None:
            # Nearly all jobs are this one: the next records of a stream, from whom they may come.
            position.last += len(job.records)
            segment = self._segments.get(job.key)
            if segment is None:
                self._segments[job.key] = [*job.records]
            else:
                segment.extend(job.records)
            return Appended(position.last, job.token)
        for key, entry in job.needs:
            self._check_entry(job, position, key, entry)
        for name, key, _ in job.also:  # before anything is written
            self._admit(Request(name), self._position(key))
        if job.delete:
            return Appended(self._delete(job.key), None)
        request = job.rest or Request(job.stream, job.expected, job.token)
        if request.claim:
            position.token = self._databases.next_number(self._transaction, b"token")
            position.owner = job.owner.packed
            claim = pack_claim(job.key, position.token, job.owner.packed)
            self._transaction.put(job.key, claim, db=self._databases.claims)
        if job.records:
            self._add_records(job.stream, job.key, job.records, position)
        for name, key, records in job.also:
            self._add_records(name, key, records, self._position(key))
        for change in job.index:
            self._change_index(job.key, change)
        if request.release and position.token:
            position.token, position.owner = 0, None
            self._transaction.delete(job.key, db=self._databases.claims)
        return Appended(position.last, token_after(request, position))

    def finish(self) -> None:
        """Write the records."""
        put, segments = self._transaction.put, self._databases.segments
        for stream, records in self._segments.items():
            put(segment_key(stream, self._positions[stream].last), encode_segment(records), db=segments)
        self.certain = self.certain or bool(self._segments)

    def _position(self, stream: bytes) -> Position[PackedOwner]:
        position = self._positions.get(stream)
        if position is None:
            position = self._positions[stream] = self._databases.position(self._transaction, stream)
        return position

    def _admit(self, request: Request, position: Position[PackedOwner]) -> None:
        # Whether an owner lives costs a call of the system, so it is asked only when it matters.
        owner = position.owner if request.token is None else None
        held = owner is not None and self._is_alive(self._transaction, owner)
        try:
            admit(request, position, held=held)
        except HeldError:
            assert owner is not None
            raise ClaimedError(request.stream, unpack_owner(owner)) from None

    def _check_entry(self, job: Job, position: Position[PackedOwner], key: bytes, entry: IndexEntry) -> None:
        found = bytes(self._transaction.get(key, b"", db=self._databases.index))
        if not found.startswith(job.key) or decode_value(found[len(job.key) :])["value"] != entry.value:
            raise ConflictError(
                job.stream,
                expected=job.expected,
                actual=position.last,
                lacking=(entry.index, entry.key),
            )

    def _add_records(
        self, stream: str, key: bytes, records: Sequence[bytes], position: Position[PackedOwner]
    ) -> None:
        if position.last == 0:
            self._transaction.put(key, name_bytes(stream), db=self._databases.names)
        position.last += len(records)
        self._segments.setdefault(key, []).extend(records)

    def _change_index(self, stream: bytes, change: IndexChange) -> None:
        index, owned = self._databases.index, self._databases.owned
        found = self._transaction.get(change.key, db=index)
        owner = None if found is None else bytes(found[: len(stream)])
        if change.value is not None:
            self._transaction.put(change.key, stream + change.value, db=index)
            self._transaction.put(stream + change.key, b"", db=owned)
            if owner not in {None, stream}:
                self._transaction.delete(bytes(owner or b"") + change.key, db=owned)
        elif owner == stream:
            self._transaction.delete(change.key, db=index)
            self._transaction.delete(stream + change.key, db=owned)

    def _delete(self, stream: bytes) -> int:
        """Delete a stream, and return how much there was of it."""
        owned = self._delete_below(stream, self._databases.owned)
        for key in owned:
            self._transaction.delete(key[len(stream) :], db=self._databases.index)
        waiting = self._segments.pop(stream, [])
        stored = self._delete_below(stream, self._databases.segments)
        self._transaction.delete(stream, db=self._databases.names)
        self._transaction.delete(stream, db=self._databases.claims)
        self._positions[stream] = Position()
        return len(owned) + len(waiting) + len(stored)

    def _delete_below(self, prefix: bytes, database: Any) -> list[bytes]:
        deleted: list[bytes] = []
        cursor = self._transaction.cursor(database)
        more = cursor.set_range(prefix)
        while more and bytes(cursor.key()).startswith(prefix):
            deleted.append(bytes(cursor.key()))
            more = cursor.delete() and bool(cursor.key())
        return deleted
