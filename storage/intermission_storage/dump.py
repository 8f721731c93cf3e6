"""`export`: a log as lines of JSON."""

import base64
import json
from collections.abc import Iterator

from intermission_storage.log import EventLog

__all__ = ["export"]

_PAGE = 1000


def export(log: EventLog) -> Iterator[str]:
    """Yield each record of the log as a line of JSON, stream after stream, in each in its order.

    A line is an object of `stream`, `seq`, `kind` and `data`; bytes in the data become `{"$bytes": base64}`.
    Appends may go on meanwhile; what comes after the stream was read is left out.

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
            line = {"stream": stream, "seq": record.seq, "kind": record.kind, "data": record.data}
            # ASCII only: a name may hold half a surrogate pair, which no file of UTF-8 takes.
            yield json.dumps(line, default=_plain, separators=(",", ":"))
        seen = page[-1].seq


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(f"a log holds no {type(value).__qualname__}")
