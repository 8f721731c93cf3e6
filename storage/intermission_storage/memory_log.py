"""`MemoryEventLog`: for tests and the first minute. It encodes as the log on disk does."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from intermission_storage.codec import decode, encode
from intermission_storage.errors import ConflictError, LogClosedError
from intermission_storage.log import check_page
from intermission_storage.record import Record

__all__ = ["MemoryEventLog"]


class MemoryEventLog:
    """An event log that is gone with the process.

    It refuses the same values as the log on disk, so that what works on it works there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, list[bytes]] = {}
        self._closed = False

    def append(self, stream: str, expected: int, records: Sequence[Record]) -> int:
        """See `EventLog.append`. "Durable" here means: in this process's memory."""
        if not records:
            raise ValueError("append needs at least one record")
        encoded = [encode(record) for record in records]
        with self._lock:
            self._check_open()
            actual = len(self._streams.get(stream, ()))
            if actual != expected:
                raise ConflictError(stream, expected=expected, actual=actual)
            self._streams.setdefault(stream, []).extend(encoded)
            return actual + len(encoded)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        check_page(after, limit)
        with self._lock:
            self._check_open()
            stored = self._streams.get(stream, [])
            raw = stored[after:] if limit is None else stored[after : after + limit]
        return [decode(item, seq) for seq, item in enumerate(raw, after + 1)]

    def position(self, stream: str) -> int:
        """See `EventLog.position`."""
        with self._lock:
            self._check_open()
            return len(self._streams.get(stream, ()))

    def streams(self) -> list[str]:
        """See `EventLog.streams`."""
        with self._lock:
            self._check_open()
            return list(self._streams)

    def close(self) -> None:
        """See `EventLog.close`. The records are dropped."""
        with self._lock:
            self._closed = True
            self._streams = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError("this memory log was closed; its records are gone")
