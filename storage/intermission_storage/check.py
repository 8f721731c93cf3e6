"""`verify`: read all of a log and say what is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from intermission_storage.errors import LogClosedError, StorageError
from intermission_storage.log import EventLog

__all__ = ["Checkable", "Report", "verify"]

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found.

    Attributes:
        streams: How many streams were read.
        records: How many records.
        problems: What is wrong, a line each; none means that the log is sound.
    """

    streams: int
    records: int
    problems: tuple[str, ...]


@runtime_checkable
class Checkable(Protocol):
    """A log that can say more about how it lies in its store than reading it tells."""

    def check_structure(self) -> list[str]:
        """Return what is wrong, a line each."""
        ...


def verify(log: EventLog) -> Report:
    """Read every record of a log, and check that it is what it claims to be.

    Each stream's records are numbered 1, 2, 3, … up to where the stream stands, each can be decoded, and a
    log on disk is sound as a file. Appends may go on meanwhile: what comes after the call may be left out.

    Raises:
        LogClosedError: The log was closed.
    """
    problems: list[str] = log.check_structure() if isinstance(log, Checkable) else []
    streams = records = 0
    for stream in _streams(log):
        streams += 1
        try:
            records += _check_stream(log, stream, problems)
        except LogClosedError:
            raise
        except StorageError as error:
            problems.append(f"stream {stream!r}: {error}")
    return Report(streams, records, tuple(problems))


def _streams(log: EventLog) -> Iterator[str]:
    after: str | None = None
    while page := log.streams(after=after, limit=_PAGE):
        yield from page
        after = page[-1]


def _check_stream(log: EventLog, stream: str, problems: list[str]) -> int:
    position = log.head(stream).position
    seen = 0
    while seen < position:
        page = log.read(stream, after=seen, limit=_PAGE)
        if not page:
            if log.head(stream).position < position:
                break  # deleted meanwhile
            problems.append(f"stream {stream!r} stands at {position}, but ends with record {seen}")
            break
        for record in page:
            if record.seq != seen + 1:
                problems.append(f"stream {stream!r}: record {record.seq} follows record {seen}")
            seen = record.seq
    return seen
