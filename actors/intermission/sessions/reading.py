"""Reading a session's events from the log, for whoever is not its actor."""

from intermission.events import Event
from intermission.sessions.records import event_of
from intermission_storage import EventLog, Kind

__all__ = ["events_after", "events_of_run"]

_PAGE = 500


def events_after(
    log: EventLog, stream: str, after: int, limit: int | None, invocation_id: str | None = None
) -> list[Event]:
    """Return the events above a number, at most so many, oldest first; of one run, or of all.

    Raises:
        StorageError: The log cannot be read.
    """
    events: list[Event] = []
    while limit is None or len(events) < limit:
        size = _PAGE if limit is None else min(_PAGE, 2 * (limit - len(events)) + 8)
        page = log.read(stream, after=after, limit=size)
        for record in page:
            if record.kind != Kind.EVENT:
                continue
            if invocation_id is None or record.data["invocationId"] == invocation_id:
                events.append(event_of(record))
        if len(page) < size:
            break
        after = page[-1].seq
    return events if limit is None else events[:limit]


def events_of_run(log: EventLog, stream: str, invocation_id: str) -> list[Event]:
    """Return the events of one run, oldest first.

    Raises:
        StorageError: The log cannot be read.
    """
    return events_after(log, stream, 0, None, invocation_id)
