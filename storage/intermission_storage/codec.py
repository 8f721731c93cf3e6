"""`Record` ↔ bytes: msgpack behind a version byte, refusing what would not come back equal."""

from collections.abc import Mapping
from typing import Any, cast

import msgpack

from intermission_storage.errors import EncodingError, LogCorruptError, LogVersionError
from intermission_storage.record import Record

__all__ = ["VERSION", "decode", "encode"]

VERSION = 1
_MAX_DEPTH = 64

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def encode(record: Record) -> bytes:
    """Return the record's bytes, without its number.

    Raises:
        EncodingError: A value would not come back equal; the error names the path to it.
    """
    data = dict(record.data)
    if type(record.kind) is not str:
        raise EncodingError("kind", f"is of type {type(record.kind).__qualname__}, not str")
    _check(record.kind, "kind", 0)
    _check(data, "data", 0)
    return bytes([VERSION]) + msgpack.packb([record.kind, data], use_bin_type=True)


def decode(raw: bytes, seq: int) -> Record:
    """Return the record that `encode` wrote, with its number.

    Raises:
        LogVersionError: A newer version wrote it.
        LogCorruptError: These bytes are no record.
    """
    if raw[:1] and raw[0] > VERSION:
        raise LogVersionError(
            f"record {seq} has format version {raw[0]}, this library reads up to {VERSION}: upgrade it."
        )
    try:
        found: object = msgpack.unpackb(raw[1:], raw=False, strict_map_key=True, use_list=True)
    except Exception as error:
        raise LogCorruptError(f"record {seq} cannot be decoded: {error}") from error
    if not isinstance(found, list) or [type(part) for part in cast("list[object]", found)] != [str, dict]:
        raise LogCorruptError(f"record {seq} cannot be decoded: it does not hold a kind and data")
    kind, data = cast("tuple[str, dict[str, Any]]", found)
    return Record(kind, data, seq)


def _check(value: object, path: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise EncodingError(path, f"is nested deeper than {_MAX_DEPTH} levels")
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is bytes:
        return
    if kind is str:
        _check_text(cast(str, value), path)
    elif kind is int:
        if not _INT_MIN <= cast(int, value) <= _INT_MAX:
            raise EncodingError(path, "is an int of more than 64 bits")
    elif kind is list:
        for index, item in enumerate(cast("list[object]", value)):
            _check(item, f"{path}[{index}]", depth + 1)
    elif kind is dict:
        _check_dict(cast("Mapping[object, object]", value), path, depth)
    else:
        raise EncodingError(path, f"is of type {kind.__qualname__}")


def _check_dict(value: Mapping[object, object], path: str, depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise EncodingError(path, f"has a key of type {type(key).__qualname__}: {key!r}")
        _check_text(key, f"a key of {path}")
        _check(item, f"{path}.{key}", depth + 1)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EncodingError(path, f"is no valid text ({error.reason} at {error.start})") from None
