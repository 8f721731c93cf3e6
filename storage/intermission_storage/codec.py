"""Records ↔ bytes: msgpack behind a version byte and a checksum, refusing what would not come back equal.

A *segment* holds the records that one commit brought to one stream. A version of the format fixes what
`Kind`s there are: a log of this version holds no others.
"""

import struct
import threading
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgpack

from intermission_storage.errors import EncodingError, LogCorruptError, LogVersionError
from intermission_storage.record import Kind, Record

__all__ = [
    "VERSION",
    "decode_segment",
    "decode_value",
    "encode_record",
    "encode_segment",
    "encode_value",
    "seal",
    "unseal",
]

VERSION = 1
_VERSION_BYTE = bytes([VERSION])

# What stands for a kind in the bytes. Numbers are never given to another kind.
_CODES = {
    Kind.SESSION_CREATED: 1,
    Kind.RUN_STARTED: 2,
    Kind.EVENT: 3,
    Kind.CALL_STARTED: 4,
    Kind.CALL_FINISHED: 5,
    Kind.CANCEL_REQUESTED: 6,
    Kind.RUN_ENDED: 7,
    Kind.RUN_END_DELIVERED: 8,
    Kind.COMPACTION: 9,
    Kind.STATE_SET: 10,
    Kind.ANSWER: 11,
}
_KINDS = {code: kind for kind, code in _CODES.items()}


class _PerThread(threading.local):
    """A packer for each thread: one is not to be shared, and making one takes as long as packing a record."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(strict_types=True)


_local = _PerThread()

# The beginning of a segment of one record, which most are: version, checksum, and msgpack's array of one.
_SEAL_OF_ONE = struct.Struct(">BIB")
_ARRAY = 0x90
_ARRAY_OF_ONE = _ARRAY | 1
_CRC_OF_ONE = zlib.crc32(bytes([_ARRAY_OF_ONE]))

_EMPTY_BYTES = b"\xc4\x00"  # which a limit of no bytes lets pass

_MAX_DEPTH = 500  # msgpack's own limit is 511 levels, of which a record takes two
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_PREFIX = 5  # the version byte and the checksum


def encode_record(record: Record) -> bytes:
    """Return the record's bytes, without its number, as a part of a segment.

    Raises:
        EncodingError: A value would not come back equal; the error names the path to it.
    """
    code = _CODES.get(record.kind)
    if code is None:
        raise EncodingError("kind", f"is {record.kind!r}, which is none of `Kind`")
    return _pack([code, record.data], record.data)


def encode_value(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of an index entry's value.

    Raises:
        EncodingError: A value would not come back equal; the error names the path to it.
    """
    return seal(_pack(value, value))


def encode_segment(records: Sequence[bytes]) -> bytes:
    """Return the segment of records that `encode_record` has encoded."""
    if len(records) == 1:
        record = records[0]
        return _SEAL_OF_ONE.pack(VERSION, zlib.crc32(record, _CRC_OF_ONE), _ARRAY_OF_ONE) + record
    # Not by a packer: making one takes longer than all the rest.
    count = len(records)
    if count < 16:
        header = bytes((_ARRAY | count,))
    elif count < 2**16:
        header = b"\xdc" + count.to_bytes(2, "big")
    else:
        header = b"\xdd" + count.to_bytes(4, "big")
    return seal(header + b"".join(records))


def decode_segment(raw: bytes, last: int) -> list[Record]:
    """Return the records of a segment, of which the last has the number `last`.

    Raises:
        LogVersionError: A newer version wrote it.
        LogCorruptError: The bytes are not what `encode_segment` wrote.
    """
    where = f"the segment that ends at record {last}"
    found = _unpacked(raw, where)
    if not (isinstance(found, list) and found):
        raise LogCorruptError(f"{where} cannot be decoded: it holds no records")
    return _records(cast(Any, found), last)


def decode_value(raw: bytes) -> dict[str, Any]:
    """Return the value of an index entry.

    Raises:
        LogVersionError: A newer version wrote it.
        LogCorruptError: The bytes are not what `encode_value` wrote.
    """
    found = _unpacked(raw, "an index entry")
    if not isinstance(found, dict):
        raise LogCorruptError("an index entry cannot be decoded: it holds no value")
    return cast("dict[str, Any]", found)


def _records(items: list[Any], last: int) -> list[Record]:
    return [_record(item, seq) for seq, item in enumerate(items, last - len(items) + 1)]


def _record(item: Any, seq: int) -> Record:
    try:
        code, data = item
        kind = _KINDS[code]
    except (TypeError, ValueError, KeyError) as error:
        raise LogCorruptError(f"record {seq} cannot be decoded: it does not hold a kind and data") from error
    if type(data) is not dict:
        raise LogCorruptError(f"record {seq} cannot be decoded: its data are no mapping")
    return Record(kind, cast("dict[str, Any]", data), seq)


def _pack(value: object, data: Any) -> bytes:
    if isinstance(data, dict):
        try:
            packed = _local.packer.pack(value)
            # The proof, not a list of what might go wrong: integer keys and NaN get past the line above.
            # Bytes do not get past this one: a bytearray is equal to the bytes that come back for it.
            proof = msgpack.unpackb(packed, max_bin_len=0, max_ext_len=0)
            if proof == value and _EMPTY_BYTES not in packed:
                return packed
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass
    return _pack_carefully(value, cast(Any, data))


def _pack_carefully(value: object, data: Any) -> bytes:
    if not isinstance(data, dict):
        raise EncodingError("data", f"is of type {type(data).__qualname__}, not dict")
    _explain(cast(Any, data), "data", 0)
    try:
        packed = _local.packer.pack(value)
        if msgpack.unpackb(packed) == value:
            return packed
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    raise EncodingError("data", "holds a value that does not come back equal")


def seal(body: bytes, *, key: bytes = b"") -> bytes:
    """Return bytes behind the version byte and their checksum, which is that of `key`, too."""
    return _VERSION_BYTE + zlib.crc32(body, zlib.crc32(key) if key else 0).to_bytes(4, "big") + body


def unseal(raw: bytes, where: str, *, key: bytes = b"") -> bytes:
    """Read `seal`; `where` says in an error what it is.

    Raises:
        LogVersionError: A newer version wrote it.
        LogCorruptError: The bytes are not what `seal` wrote under that key.
    """
    if raw[:1] and raw[0] > VERSION:
        raise LogVersionError(
            f"{where} has format version {raw[0]}, this library reads up to {VERSION}: upgrade it."
        )
    body = raw[_PREFIX:]
    found = int.from_bytes(raw[1:_PREFIX], "big")
    if len(raw) <= _PREFIX or raw[0] != VERSION or zlib.crc32(body, zlib.crc32(key)) != found:
        raise LogCorruptError(f"{where} is damaged: its checksum is wrong")
    return body


def _unpacked(raw: bytes, where: str) -> object:
    body = unseal(raw, where)
    try:
        return cast(object, msgpack.unpackb(body, strict_map_key=True))
    except Exception as error:
        raise LogCorruptError(f"{where} cannot be decoded: {error}") from error


def _explain(value: object, path: str, depth: int) -> None:
    """Raise the EncodingError of the first value that cannot be stored, if it is one of the known kinds."""
    if depth > _MAX_DEPTH:
        raise EncodingError(_shortened(path), f"is nested deeper than {_MAX_DEPTH} levels, or holds itself")
    kind = type(value)
    if kind is list:
        for index, item in enumerate(cast("list[object]", value)):
            _explain(item, f"{path}[{index}]", depth + 1)
    elif kind is dict:
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise EncodingError(path, f"has a key of type {type(key).__qualname__}: {key!r}")
            _explain_scalar(key, f"a key of {path}")
            _explain(item, f"{path}.{key}", depth + 1)
    elif value is not None:
        _explain_scalar(value, path)


def _explain_scalar(value: object, path: str) -> None:
    match value:
        case bool() | bytes():
            pass
        case float():
            if value != value:
                raise EncodingError(path, "is NaN, which is not equal to itself")
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise EncodingError(path, f"is no valid text ({error.reason} at {error.start})") from None
        case int():
            if not _INT_MIN <= value <= _INT_MAX:
                raise EncodingError(path, "is an int of more than 64 bits")
        case _:
            pass
    if type(value) not in {bool, bytes, float, str, int}:
        raise EncodingError(path, f"is of type {type(value).__qualname__}")


def _shortened(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}…{path[-100:]}"
