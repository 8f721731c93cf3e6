"""Reading a session's events from the log, for whoever is not its actor."""

from intermission.errors import SessionNotFoundError
from intermission.events import Event
from intermission.keys import SessionKey
from intermission.pending import PendingCall, oldest_first
from intermission.sessions.records import PENDING, event_of
from intermission_storage import EventLog, Kind
from intermission_storage.log import check_page

__all__ = ["events_after", "events_of_run", "pending_calls", "stored_events"]

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


def stored_events(log: EventLog, key: SessionKey, *, after: int = 0, limit: int | None = None) -> list[Event]:
    """Return the events of a session above a number, at most so many, oldest first.

    Raises:
        ValueError: `after` or `limit` is negative.
        SessionNotFoundError: The log holds no such session.
        StorageError: The log cannot be read.
    """
    check_page(after, limit)
    if not log.head(key.stream).position:
        raise SessionNotFoundError(key.app, key.user_id, key.session_id)
    return events_after(log, key.stream, after, limit)


def pending_calls(log: EventLog, key: SessionKey) -> list[PendingCall]:
    """Return the calls of a session that wait for an answer, oldest first.

    Raises:
        StorageError: The log cannot be read.
    """
    entries = log.index(PENDING, (key.app, key.user_id, key.session_id))
    return oldest_first(PendingCall.from_dict(entry.value) for entry in entries)


def events_of_run(log: EventLog, stream: str, invocation_id: str) -> list[Event]:
    """Return the events of one run, oldest first.

    Raises:
        StorageError: The log cannot be read.
    """
    return events_after(log, stream, 0, None, invocation_id)
