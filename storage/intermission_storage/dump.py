"""`export`: a log as lines of JSON."""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intermission_storage.log import EventLog

__all__ = ["export"]

_PAGE = 1000


def export(log: EventLog) -> Iterator[str]:
    """Yield each record of the log as a line of JSON, stream after stream, in each in its order.

    A line is an object of `stream`, `seq`, `kind` and `data`. What JSON has no form for becomes an object of
    one key: bytes `{"$bytes": base64}`, and an infinite float `{"$float": "inf"}` or `{"$float": "-inf"}`. An
    object of the data that has one key, beginning with `$`, becomes `{"$dict": object}`, so that nothing in
    the data can be taken for one of these. Appends may go on meanwhile; what comes after the stream was read
    is left out.

    Raises:
        StorageError: The log cannot be read.
    """
    after: str | None = None
    while streams := log.streams(after=after, limit=_PAGE):
        for stream in streams:
            yield from _stream(log, stream)
        after = streams[-1]


def _stream(log: EventLog, stream: str) -> Iterator[str]:
    seen = 0
    while page := log.read(stream, after=seen, limit=_PAGE):
        for record in page:
            line = {"stream": stream, "seq": record.seq, "kind": record.kind, "data": _plain(record.data)}
            # ASCII only: a name may hold half a surrogate pair, which no file of UTF-8 takes.
            yield json.dumps(line, allow_nan=False, separators=(",", ":"))
        seen = page[-1].seq


def _plain(data: object) -> object:
    """Return a copy of a record's data that JSON can hold."""
    # Not by recursion: the data may be nested as deep as Python's stack is.
    top: list[Any] = [data]
    todo: list[tuple[Any, Any]] = [(top, 0)]
    while todo:
        place, key = todo.pop()
        value = place[key]
        if isinstance(value, bytes):
            place[key] = {"$bytes": base64.b64encode(value).decode()}
        elif isinstance(value, float) and math.isinf(value):
            place[key] = {"$float": str(value)}
        elif isinstance(value, list):
            items = place[key] = list(cast("list[object]", value))
            todo.extend((items, index) for index in range(len(items)))
        elif isinstance(value, Mapping):
            copied = dict(cast("Mapping[str, Any]", value))
            place[key] = {"$dict": copied} if _looks_marked(copied) else copied
            todo.extend((copied, name) for name in copied)
    return top[0]


def _looks_marked(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")
