"""What a session writes to its stream: which records there are, and event ↔ record."""

import uuid
from typing import Any

from intermission.events import Event
from intermission.kernel.actor import text_of
from intermission.keys import SessionKey
from intermission.runs.result import RunStatus
from intermission_storage import IndexEntry, Kind, Record

__all__ = [
    "OPEN_RUNS",
    "SESSIONS",
    "event_of",
    "event_record",
    "open_run",
    "run_ended",
    "run_started",
    "session_created",
    "session_entry",
]

SESSIONS = "sessions"
"""Index of all sessions, by app, user and session id."""

OPEN_RUNS = "open runs"
"""Index of the runs that have no end yet, by app, user, session and invocation id."""


def session_created(key: SessionKey, time: float) -> Record:
    """The first record of a session."""
    data = {
        "id": uuid.uuid4().hex,  # two sessions of one key, one made after the other was deleted, are two
        "app": key.app,
        "userId": key.user_id,
        "sessionId": key.session_id,
        "timestamp": time,
    }
    return Record(Kind.SESSION_CREATED, data)


def run_started(invocation_id: str, time: float) -> Record:
    """A run begins; it stands in one commit with its user event."""
    return Record(Kind.RUN_STARTED, {"invocationId": invocation_id, "timestamp": time})


def run_ended(
    invocation_id: str, status: RunStatus, time: float, *, reason: str, error: Exception | None
) -> Record:
    """A run has ended: the last record of the run, whatever its end."""
    data: dict[str, Any] = {"invocationId": invocation_id, "status": str(status), "timestamp": time}
    if reason:
        data["reason"] = reason
    if error is not None:
        kind, _, message = text_of(error).partition(": ")
        data["error"] = {"type": type(error).__name__, "message": message or kind}
    return Record(Kind.RUN_ENDED, data)


def event_record(event: Event) -> Record:
    """The record of an event. Payloads never hold their number: the log gives it."""
    data = event.to_dict()
    data.pop("seq", None)
    return Record(Kind.EVENT, data)


def event_of(record: Record) -> Event:
    """Read the event of a record of that kind, with its number."""
    return Event.from_dict({**record.data, "seq": record.seq})


def session_entry(key: SessionKey) -> IndexEntry:
    """A session's entry in the index of all sessions."""
    return IndexEntry(SESSIONS, (key.app, key.user_id, key.session_id))


def open_run(key: SessionKey, invocation_id: str) -> IndexEntry:
    """A run's entry in the index of those that have no end yet."""
    return IndexEntry(OPEN_RUNS, (key.app, key.user_id, key.session_id, invocation_id))
