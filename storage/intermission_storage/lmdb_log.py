"""`LmdbEventLog`: the event log on disk, one LMDB environment, a durable commit for each append."""

import contextlib
import hashlib
import os
import struct
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import lmdb
import msgpack

from intermission_storage.codec import decode, encode
from intermission_storage.errors import (
    ConflictError,
    LogClosedError,
    LogCorruptError,
    LogFullError,
    LogVersionError,
    StorageError,
)
from intermission_storage.log import check_page
from intermission_storage.record import Record

__all__ = ["LmdbEventLog"]

_FORMAT = 1
_MAP_SIZE = 16 << 30  # bytes of address space, not of disk: the file grows with what is in it
_MAX_READERS = (
    4096  # threads that read at one moment, in all processes; LMDB's own 126 are fewer than workers
)

_META_FORMAT = b"format"
_SEQ = struct.Struct(">Q")


class LmdbEventLog:
    """An event log in the directory `path`, created if it is missing.

    An append returns when its commit is on disk. One process opens a path once: a second `LmdbEventLog`
    on it in the same process is refused by LMDB; other processes may read and append beside it.

    Layout: in the database `records` a key is the stream's digest and the record's number, so that one
    stream lies together in order; in `heads` a digest leads to the stream's name and last number.

    Raises:
        LogCorruptError: There is something else at `path`.
        LogVersionError: A newer version of this library wrote the log.
        StorageError: The directory cannot be opened or written.
    """

    def __init__(self, path: str | os.PathLike[str], *, map_size: int = _MAP_SIZE) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._open_calls = 0
        self._closing = False
        self._idle = threading.Condition(self._lock)
        self._env = self._open(map_size)

    def _open(self, map_size: int) -> lmdb.Environment:
        if self.path.exists() and not self.path.is_dir():
            raise LogCorruptError(
                f"{self.path} is no event log: a log is a directory. Nothing was changed in it."
            )
        try:
            env = lmdb.open(str(self.path), map_size=map_size, max_dbs=4, max_readers=_MAX_READERS)
        except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
            raise LogCorruptError(f"{self.path} is no event log, or is damaged: {error}") from error
        except (lmdb.Error, OSError) as error:
            raise StorageError(f"{self.path} cannot be opened as an event log: {error}") from error
        try:
            env.reader_check()  # a killed process may have left its place in the table of readers
            with env.begin(write=True) as transaction:
                self._open_databases(env, transaction)
        except lmdb.Error as error:
            env.close()
            raise LogCorruptError(f"{self.path} is no event log, or is damaged: {error}") from error
        except BaseException:
            env.close()
            raise
        return env

    def _open_databases(self, env: lmdb.Environment, transaction: lmdb.Transaction) -> None:
        # In one transaction: a log is complete or empty, and what is foreign is not touched.
        new = transaction.stat()["entries"] == 0
        self._meta = env.open_db(b"meta", transaction, create=new)
        if new:
            transaction.put(_META_FORMAT, bytes([_FORMAT]), db=self._meta)
        found = transaction.get(_META_FORMAT, db=self._meta)
        if not found:
            raise LogCorruptError(
                f"{self.path} is no event log: it has no format. Nothing was changed in it."
            )
        if found[0] > _FORMAT:
            raise LogVersionError(
                f"{self.path} has log format {found[0]}, this library reads up to {_FORMAT}: upgrade it."
            )
        self._heads = env.open_db(b"heads", transaction, create=new)
        self._records = env.open_db(b"records", transaction, create=new)

    def append(self, stream: str, expected: int, records: Sequence[Record]) -> int:
        """See `EventLog.append`. When it returns, the records are flushed to the disk."""
        if not records:
            raise ValueError("append needs at least one record")
        encoded = [encode(record) for record in records]
        digest = _digest(stream)
        with self._using(), self._env.begin(write=True) as transaction:
            actual = self._position(transaction, digest)
            if actual != expected:
                raise ConflictError(stream, expected=expected, actual=actual)
            for seq, raw in enumerate(encoded, actual + 1):
                transaction.put(digest + _SEQ.pack(seq), raw, db=self._records)
            last = actual + len(encoded)
            transaction.put(digest, _pack_head(stream, last), db=self._heads)
        return last

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`. Damage that LMDB itself notices is a `LogCorruptError`."""
        check_page(after, limit)
        digest = _digest(stream)
        found: list[tuple[int, bytes]] = []
        with self._using(), self._env.begin(db=self._records) as transaction:
            cursor = transaction.cursor()
            more = cursor.set_range(digest + _SEQ.pack(after + 1))
            while more and cursor.key().startswith(digest) and (limit is None or len(found) < limit):
                (seq,) = cast("tuple[int]", _SEQ.unpack(cursor.key()[len(digest) :]))
                found.append((seq, bytes(cursor.value())))
                more = cursor.next()
        return [decode(raw, seq) for seq, raw in found]

    def position(self, stream: str) -> int:
        """See `EventLog.position`."""
        with self._using(), self._env.begin() as transaction:
            return self._position(transaction, _digest(stream))

    def streams(self) -> list[str]:
        """See `EventLog.streams`."""
        with self._using(), self._env.begin(db=self._heads) as transaction:
            return [_head(raw)[0] for _, raw in transaction.cursor()]

    def close(self) -> None:
        """See `EventLog.close`. Waits for the calls that are under way."""
        with self._idle:
            self._closing = True
            while self._open_calls:
                self._idle.wait()
            self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _position(self, transaction: lmdb.Transaction, digest: bytes) -> int:
        raw = transaction.get(digest, db=self._heads)
        return 0 if raw is None else _head(bytes(raw))[1]

    @contextlib.contextmanager
    def _using(self) -> Generator[None]:
        # The environment must not be closed under a transaction: that is a crash, not an exception.
        with self._lock:
            if self._closing:
                raise LogClosedError(f"the event log {self.path} was closed")
            self._open_calls += 1
        try:
            yield
        except (lmdb.MapFullError, lmdb.DiskError) as error:
            raise LogFullError(
                f"{self.path} has no room for the records: {error}. Nothing was written."
            ) from error
        except (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError) as error:
            raise LogCorruptError(f"{self.path} is damaged: {error}") from error
        except lmdb.Error as error:
            raise StorageError(f"{self.path}: {error}. Nothing was written.") from error
        finally:
            with self._idle:
                self._open_calls -= 1
                if not self._open_calls:
                    self._idle.notify_all()


def _digest(stream: str) -> bytes:
    # LMDB's keys end at 511 bytes; a stream's name may be of any length.
    return hashlib.blake2b(_name_bytes(stream), digest_size=16).digest()


def _name_bytes(stream: str) -> bytes:
    # "surrogatepass": a user's string may hold half a surrogate pair, which plain UTF-8 refuses.
    return stream.encode("utf-8", "surrogatepass")


def _pack_head(stream: str, last: int) -> bytes:
    return msgpack.packb([_name_bytes(stream), last])


def _head(raw: bytes) -> tuple[str, int]:
    name, last = cast("tuple[bytes, int]", msgpack.unpackb(raw))
    return name.decode("utf-8", "surrogatepass"), last
