"""What a session writes to its stream: which records there are, and event ↔ record."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intermission.content import plain_copy
from intermission.events import Event
from intermission.ids import new_hex
from intermission.kernel.actor import text_of
from intermission.keys import SessionKey
from intermission.pending import PendingCall
from intermission.runs.result import Verdict
from intermission_storage import IndexEntry, Kind, Record

__all__ = [
    "OPEN_RUNS",
    "PENDING",
    "SESSIONS",
    "UNDELIVERED",
    "cancel_requested",
    "event_of",
    "event_record",
    "open_run",
    "pending_entry",
    "run_end_delivered",
    "run_ended",
    "run_started",
    "session_created",
    "session_entry",
    "state_set",
    "undelivered",
]

SESSIONS = "sessions"
"""Index of all sessions, by app, user and session id."""

OPEN_RUNS = "open runs"
"""Index of the runs that have no end yet, by app, user, session and invocation id."""

PENDING = "pending calls"
"""Index of the calls that wait for an answer, by app, user, session, invocation and pending id."""

UNDELIVERED = "undelivered ends"
"""Index of the runs whose end is to be told to plugins, by app, user, session, invocation id and claim."""


def session_created(key: SessionKey, time: float, state: Mapping[str, Any] | None = None) -> Record:
    """The first record of a session, with the state that it begins with."""
    data: dict[str, Any] = {
        "id": new_hex(),  # two sessions of one key, one made after the other was deleted, are two
        "app": key.app,
        "userId": key.user_id,
        "sessionId": key.session_id,
        "timestamp": time,
    }
    if state:
        data["state"] = plain_copy(state)
    return Record(Kind.SESSION_CREATED, data)


def run_started(
    invocation_id: str,
    time: float,
    *,
    agent: str | None = None,
    tree: Mapping[str, Any] | None = None,
    attempt: int = 0,
) -> Record:
    """A run begins, or is gone on with; it stands in one commit with its user event.

    Args:
        invocation_id: The run.
        time: When.
        agent: The agent that it begins with, if that is not the root.
        tree: The app's agents, for whoever goes on with it later.
        attempt: How often it is gone on with because its process had died.
    """
    data: dict[str, Any] = {"invocationId": invocation_id, "timestamp": time}
    if agent is not None:
        data["agent"] = agent
    if tree is not None:
        data["tree"] = tree
    if attempt:
        data["attempt"] = attempt
    return Record(Kind.RUN_STARTED, data)


def cancel_requested(invocation_id: str, verdict: Verdict, time: float) -> Record:
    """Somebody, or a deadline, has cancelled the run; its end follows in the same commit."""
    data = {
        "invocationId": invocation_id,
        "source": str(verdict.source),
        "reason": verdict.reason,
        "timestamp": time,
    }
    return Record(Kind.CANCEL_REQUESTED, data)


def run_ended(invocation_id: str, verdict: Verdict, time: float, *, open_calls: Iterable[str] = ()) -> Record:
    """A run has ended: the last record of the run, whatever its end."""
    data: dict[str, Any] = {"invocationId": invocation_id, "status": str(verdict.status), "timestamp": time}
    if verdict.reason:
        data["reason"] = verdict.reason
    if verdict.source is not None:
        data["source"] = str(verdict.source)
    if verdict.error is not None:
        kind, _, message = text_of(verdict.error).partition(": ")
        data["error"] = {"type": type(verdict.error).__name__, "message": message or kind}
    calls = list(open_calls)
    if calls:
        data["openCalls"] = calls
    return Record(Kind.RUN_ENDED, data)


def run_end_delivered(invocation_id: str, time: float) -> Record:
    """The plugins were told that a run has ended."""
    return Record(Kind.RUN_END_DELIVERED, {"invocationId": invocation_id, "timestamp": time})


def state_set(delta: Mapping[str, Any], time: float, operations: Sequence[Mapping[str, Any]] = ()) -> Record:
    """The state was changed: that of a session from outside of all runs, or that of a user or an app."""
    data = {"delta": plain_copy(delta), "timestamp": time}
    if operations:
        data["operations"] = plain_copy(operations)
    return Record(Kind.STATE_SET, data)


def event_record(event: Event) -> Record:
    """The record of an event. Payloads never hold their number: the log gives it."""
    data = event.to_dict()
    data.pop("seq", None)
    return Record(Kind.EVENT, data)


def event_of(record: Record) -> Event:
    """Read the event of a record of that kind, with its number."""
    return Event.stored(record.data, record.seq)


def session_entry(key: SessionKey, created: float, identity: str) -> IndexEntry:
    """A session's entry in the index of all sessions, with the time and the id of its first record."""
    value = {"created": created, "id": identity}
    return IndexEntry(SESSIONS, (key.app, key.user_id, key.session_id), value)


def open_run(
    key: SessionKey, invocation_id: str, since: float = 0.0, *, followed: bool = False
) -> IndexEntry:
    """A run's entry in the index of those that have no end yet.

    Args:
        key: Its session.
        invocation_id: The run.
        since: When it was begun last.
        followed: Whether its session has begun another run since, so that it is continued only on purpose.
    """
    value: dict[str, Any] = {"since": since}
    if followed:
        value["followed"] = True
    return IndexEntry(OPEN_RUNS, (key.app, key.user_id, key.session_id, invocation_id), value)


def pending_entry(key: SessionKey, call: PendingCall) -> IndexEntry:
    """A call's entry in the index of those that wait for an answer."""
    name = (key.app, key.user_id, key.session_id, call.invocation_id, call.id)
    return IndexEntry(PENDING, name, call.to_dict())


def undelivered(key: SessionKey, invocation_id: str, token: int | None, runner: str) -> IndexEntry:
    """A run's entry in the index of those whose end is to be told.

    Args:
        key: Its session.
        invocation_id: The run.
        token: The claim with which it ends: a run that is gone on with ends again, with another one.
        runner: Who tells it.
    """
    name = (key.app, key.user_id, key.session_id, invocation_id, str(token or ""))
    return IndexEntry(UNDELIVERED, name, {"runner": runner})
