"""How a log lies in an LMDB environment: its databases, and what their keys are made of.

    meta      format: the version byte. process, token: the last numbers given out
    names     stream digest -> the stream's name
    claims    stream digest -> version, checksum (of the digest, too), token and owner, while it is claimed
    segments  stream digest + number of the last record in it -> the records of one commit
    index     index digest + digest of each text of the key -> stream digest, key, value and stream's name
    owned     stream digest + index key -> nothing: the index entries that go when the stream goes
    owners    process and handle number -> nothing, while the log is open there

A digest stands for a text because LMDB's keys end at 511 bytes and a text of the user's may be of any
length and hold any character. Sixteen bytes of BLAKE2 do not collide by chance.
"""

import functools
import hashlib
import struct
from dataclasses import dataclass
from typing import Any, cast

import lmdb
import msgpack

from intermission_storage.admission import Position
from intermission_storage.codec import encode_value, seal, unseal
from intermission_storage.errors import LogCorruptError, LogVersionError
from intermission_storage.log import check_index_key
from intermission_storage.record import IndexEntry, Owner

__all__ = [
    "DIGEST_SIZE",
    "Databases",
    "IndexChange",
    "PackedOwner",
    "claim_of",
    "digest",
    "index_change",
    "index_key",
    "last_number",
    "name_bytes",
    "name_of",
    "owner_key",
    "owner_process",
    "pack_claim",
    "pack_owner",
    "segment_key",
    "segment_number",
    "unpack_owner",
]

_FORMAT = 1
_META_FORMAT = b"format"
_NUMBER = struct.Struct(">Q")
_OWNER = struct.Struct(">QI")
DIGEST_SIZE = 16

PackedOwner = bytes


@dataclass(frozen=True, slots=True)
class IndexChange:
    """An index entry as bytes; `value` is `None` for one that goes."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Databases:
    """The open databases of a log."""

    meta: Any
    names: Any
    claims: Any
    segments: Any
    index: Any
    owned: Any
    owners: Any

    @classmethod
    def open(
        cls, environment: lmdb.Environment, transaction: lmdb.Transaction, *, create: bool, where: str
    ) -> "Databases":
        """Open them, or make them in an environment that is empty, all in one transaction that writes.

        Without `create`, the transaction only reads.

        Raises:
            LogCorruptError: The environment is somebody else's. Nothing was changed in it.
            LogVersionError: A newer version made them.
        """
        new = transaction.stat()["entries"] == 0
        if new and not create:
            raise LogCorruptError(f"{where} is no event log: it is empty. Nothing was changed in it.")
        # What a transaction that only reads has opened is closed again at its end, and unknown to older ones.
        within = transaction if create else None
        meta = environment.open_db(b"meta", within, create=new)
        if new:
            transaction.put(_META_FORMAT, bytes([_FORMAT]), db=meta)
        if create:
            _check_format(transaction.get(_META_FORMAT, db=meta), where)
        else:
            with environment.begin() as later:
                _check_format(later.get(_META_FORMAT, db=meta), where)
        rest = (b"names", b"claims", b"segments", b"index", b"owned", b"owners")
        return cls(meta, *(environment.open_db(name, within, create=new) for name in rest))

    def next_number(self, transaction: lmdb.Transaction, name: bytes) -> int:
        """Give out the next number of a counter: none is given out twice."""
        raw = transaction.get(name, db=self.meta)
        number = 1 + (0 if raw is None else cast("tuple[int]", _NUMBER.unpack(raw))[0])
        transaction.put(name, _NUMBER.pack(number), db=self.meta)
        return number

    def position(self, transaction: lmdb.Transaction, stream: bytes) -> Position[PackedOwner]:
        """Read where a stream stands."""
        claim = transaction.get(stream, db=self.claims)
        token, owner = (0, None) if claim is None else claim_of(stream, bytes(claim))
        return Position(last_number(transaction.cursor(self.segments), stream), token, owner)


def _check_format(found: bytes | memoryview | None, where: str) -> None:
    if not found:
        raise LogCorruptError(f"{where} is no event log: it has no format. Nothing was changed in it.")
    if found[0] > _FORMAT:
        raise LogVersionError(
            f"{where} has log format {found[0]}, this library reads up to {_FORMAT}: upgrade it."
        )


@functools.lru_cache(maxsize=65536)
def digest(text: str) -> bytes:
    """Return what stands for a text in a key."""
    return hashlib.blake2b(name_bytes(text), digest_size=DIGEST_SIZE).digest()


def name_bytes(text: str) -> bytes:
    """Return a text as bytes, whatever its characters."""
    # "surrogatepass": a user's string may hold half a surrogate pair, which plain UTF-8 refuses.
    return text.encode("utf-8", "surrogatepass")


def name_of(raw: bytes) -> str:
    """Read `name_bytes`."""
    return raw.decode("utf-8", "surrogatepass")


def segment_key(stream: bytes, last: int) -> bytes:
    """Return the key of the segment that ends at `last`; what comes after n begins at the key of n + 1."""
    return stream + _NUMBER.pack(last)


def last_number(cursor: lmdb.Cursor, stream: bytes) -> int:
    """Return the number of a stream's last record, 0 for an unknown stream."""
    # The first key behind all of the stream's; the one before it is the stream's last, if it has any.
    found = cursor.set_range(segment_key(stream, 2**64 - 1))
    key = cursor.key() if found and cursor.key()[:DIGEST_SIZE] == stream else b""
    if not key and (cursor.prev() if found else cursor.last()):
        key = cursor.key()
    if key[:DIGEST_SIZE] != stream:
        return 0
    return segment_number(bytes(key))


def segment_number(key: bytes) -> int:
    """Return the number of the last record in the segment of that key."""
    return cast("tuple[int]", _NUMBER.unpack(key[DIGEST_SIZE:]))[0]


def index_change(stream: str, entry: IndexEntry, *, gone: bool) -> IndexChange:
    """Return an index entry as bytes, to be put or to go.

    Raises:
        EncodingError: Its value would not come back equal.
        ValueError: Its key has too many texts.
    """
    key = index_key(entry.index, entry.key)
    if gone:
        return IndexChange(key, None)
    texts = [name_bytes(text) for text in entry.key]
    # With its stream's name: a stream without a record has none elsewhere.
    data = {"key": texts, "value": entry.value, "stream": name_bytes(stream)}
    return IndexChange(key, encode_value(data))


def index_key(index: str, key: tuple[str, ...]) -> bytes:
    """Return the key of an index entry, or the common beginning of the keys below `key`.

    Raises:
        ValueError: The key has too many texts.
    """
    check_index_key(index, key)
    return b"".join([digest(index), *map(digest, key)])


def pack_claim(stream: bytes, token: int, owner: PackedOwner) -> bytes:
    """Return the claim of a stream as bytes."""
    return seal(_NUMBER.pack(token) + owner, key=stream)


def claim_of(stream: bytes, raw: bytes) -> tuple[int, PackedOwner]:
    """Read `pack_claim`.

    Raises:
        LogVersionError: A newer version wrote it.
        LogCorruptError: The bytes are not what `pack_claim` wrote for this stream.
    """
    body = unseal(raw, "the claim of the stream", key=stream)
    if len(body) <= _NUMBER.size + _OWNER.size:
        raise LogCorruptError("the claim of the stream is damaged: it names nobody")
    return cast("tuple[int]", _NUMBER.unpack(body[: _NUMBER.size]))[0], body[_NUMBER.size :]


def pack_owner(process: int, handle: int, owner: Owner) -> PackedOwner:
    """Return an owner as bytes: the process's number in this log, that of its opened log, and who that is."""
    return _OWNER.pack(process, handle) + msgpack.packb([owner.pid, owner.host])


def owner_key(owner: PackedOwner) -> bytes:
    """Return the part of an owner's bytes that no other owner has."""
    return owner[: _OWNER.size]


def owner_process(owner: PackedOwner) -> int:
    """Return the number of an owner's process."""
    return cast("tuple[int, int]", _OWNER.unpack(owner_key(owner)))[0]


def unpack_owner(owner: PackedOwner) -> Owner:
    """Read `pack_owner`."""
    process, handle = cast("tuple[int, int]", _OWNER.unpack(owner_key(owner)))
    pid, host = cast("tuple[int, str]", msgpack.unpackb(owner[_OWNER.size :]))
    return Owner(f"{process}.{handle}", pid, host)
