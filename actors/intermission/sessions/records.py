"""What a session writes to its stream: which records there are, and event ↔ record."""

from typing import Any

from intermission.events import Event
from intermission.kernel.actor import text_of
from intermission.keys import SessionKey
from intermission.runs.result import RunStatus
from intermission_storage import Record

__all__ = [
    "EVENT",
    "RUN_ENDED",
    "RUN_STARTED",
    "SESSION_CREATED",
    "event_of",
    "event_record",
    "run_ended",
    "run_started",
    "session_created",
]

SESSION_CREATED = "session_created"
RUN_STARTED = "run_started"
EVENT = "event"
RUN_ENDED = "run_ended"


def session_created(key: SessionKey, time: float) -> Record:
    """The first record of a session."""
    data = {"app": key.app, "userId": key.user_id, "sessionId": key.session_id, "timestamp": time}
    return Record(SESSION_CREATED, data)


def run_started(invocation_id: str, time: float) -> Record:
    """A run begins; it stands in one commit with its user event."""
    return Record(RUN_STARTED, {"invocationId": invocation_id, "timestamp": time})


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
    return Record(RUN_ENDED, data)


def event_record(event: Event) -> Record:
    """The record of an event. Payloads never hold their number: the log gives it."""
    data = event.to_dict()
    data.pop("seq", None)
    return Record(EVENT, data)


def event_of(record: Record) -> Event:
    """Read the event of an `EVENT` record, with its number."""
    return Event.from_dict({**record.data, "seq": record.seq})
