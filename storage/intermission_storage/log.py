"""`EventLog`: what the runtime asks of a store. It assumes no LMDB."""

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from intermission_storage.record import Record

__all__ = ["EventLog", "check_page"]


class EventLog(Protocol):
    """Streams of numbered records: appended whole or not at all, never changed afterwards.

    A stream comes into being with its first record. The records of a stream are numbered 1, 2, 3, …
    in the order of their commits. Every method may be called from any thread.
    """

    def append(self, stream: str, expected: int, records: Sequence[Record]) -> int:
        """Commit `records` at the end of `stream`, in one transaction.

        Args:
            stream: The stream's name: any string.
            expected: The number of the last record that the writer knows of, 0 for a new stream.
            records: At least one record. Their own `seq` is ignored.

        Returns:
            The number of the last record written. It is durable when the call returns, as far as the log is.

        Raises:
            ConflictError: The stream does not end at `expected`.
            EncodingError: A value would not come back equal.
            LogFullError: There is no room.
            LogClosedError: The log was closed.
        """
        ...

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records of `stream` above number `after`, at most `limit`; none for an unknown stream.

        Raises:
            ValueError: `after` or `limit` is negative.
            LogClosedError: The log was closed.
            LogCorruptError: A record cannot be decoded.
            LogVersionError: A record was written by a newer version.
        """
        ...

    def position(self, stream: str) -> int:
        """Return the number of the last record of `stream`, 0 for an unknown stream."""
        ...

    def streams(self) -> list[str]:
        """Return the names of all streams, in no order that may be relied on."""
        ...

    def close(self) -> None:
        """Close the log. Closing twice is allowed; every other call afterwards raises `LogClosedError`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def check_page(after: int, limit: int | None) -> None:
    """Refuse what no `read` may be asked for, so that every log does so alike.

    Raises:
        ValueError: `after` or `limit` is negative.
    """
    if after < 0 or (limit is not None and limit < 0):
        raise ValueError(f"after={after} and limit={limit} must not be negative")
