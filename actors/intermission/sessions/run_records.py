"""`RunRecord`: what the log says of one run, whether it has ended or not."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from intermission.events import Usage
from intermission.keys import SessionKey
from intermission.runs.result import COUNTED, CancelSource, RunResult, RunStatus
from intermission.sessions.reading import events_of_run, pending_calls
from intermission_storage import EventLog, Kind, Record

__all__ = ["RunRecord", "result_in_log", "run_in_log", "runs_in_log", "unreadable_run"]

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, as its records tell it.

    Attributes:
        invocation_id: The run.
        status: How it ended; `None` if it has no end yet: it is under way, or its process has died.
        reason: Why it was cancelled or stopped, if it was.
        source: Who or what cancelled it; `None` if nobody did.
        error: What failed it, as the type and the text of the exception; `""` if nothing did.
        open_calls: Ids of the tool calls that began and have no end in the log, oldest first: they may have
            had their effect.
        usage: The tokens of its stored events.
        first_seq: The number of its first record in the session.
        last_seq: The number of its last one so far.
        started: When it began, in seconds since the epoch.
        ended: When it ended; `None` before.
        user_id: The session's user.
        session_id: The session.
        replayed: Whether a plugin is told of its end from the log, for its process is gone.
    """

    invocation_id: str
    status: RunStatus | None = None
    reason: str = ""
    source: CancelSource | None = None
    error: str = ""
    open_calls: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    first_seq: int
    last_seq: int
    started: float
    ended: float | None = None
    user_id: str = ""
    session_id: str = ""
    replayed: bool = False


def runs_in_log(log: EventLog, key: SessionKey) -> list[RunRecord]:
    """Return the runs of a session, oldest first.

    Raises:
        StorageError: The log cannot be read.
    """
    runs: dict[str, RunRecord] = {}
    after = 0
    while page := log.read(key.stream, after=after, limit=_PAGE):
        _fold(runs, page, key)
        after = page[-1].seq
    return list(runs.values())


def run_in_log(log: EventLog, key: SessionKey, invocation_id: str) -> RunRecord | None:
    """Return a run of a session, to be told of again; `None` if there is none.

    Raises:
        StorageError: The log cannot be read.
    """
    found = (run for run in runs_in_log(log, key) if run.invocation_id == invocation_id)
    run = next(found, None)
    return None if run is None else replace(run, replayed=True)


def unreadable_run(key: SessionKey, invocation_id: str, error: Exception) -> RunRecord:
    """Return what can be said of a run whose records cannot be read: that it was, and why they cannot."""
    return RunRecord(
        invocation_id=invocation_id,
        error=f"{type(error).__name__}: {error}",
        first_seq=0,
        last_seq=0,
        started=0.0,
        user_id=key.user_id,
        session_id=key.session_id,
        replayed=True,
    )


def result_in_log(log: EventLog, key: SessionKey, run: RunRecord) -> RunResult:
    """Return the result of a run as its records tell it; what failed it is only known as the text there.

    Raises:
        StorageError: The log cannot be read.
    """
    finals = [event for event in events_of_run(log, key.stream, run.invocation_id) if event.is_final]
    texts = [event.text for event in finals if event.author != "user" and event.text]
    waiting = pending_calls(log, key) if run.status is RunStatus.PAUSED else []
    return RunResult(
        status=run.status or RunStatus.INTERRUPTED,
        text=texts[-1] if texts else "",
        usage=run.usage,
        reason=run.reason,
        invocation_id=run.invocation_id,
        last_seq=run.last_seq,
        pending=tuple(call for call in waiting if call.invocation_id == run.invocation_id),
        read_events=partial(events_of_run, log, key.stream, run.invocation_id),
    )


def _fold(runs: dict[str, RunRecord], records: Iterable[Record], key: SessionKey) -> None:
    for record in records:
        data = record.data
        invocation_id = data.get("invocationId")
        if invocation_id is None:
            continue
        run = runs.get(invocation_id)
        if run is None:
            if record.kind != Kind.RUN_STARTED:
                continue
            run = RunRecord(
                invocation_id=invocation_id,
                first_seq=record.seq,
                last_seq=record.seq,
                started=data["timestamp"],
                user_id=key.user_id,
                session_id=key.session_id,
            )
        runs[invocation_id] = replace(run, last_seq=record.seq, **_change(run, record))


def _change(run: RunRecord, record: Record) -> dict[str, Any]:
    data = record.data
    match record.kind:
        case Kind.EVENT if data.get("usageMetadata"):
            return {"usage": run.usage + Usage.from_dict(data["usageMetadata"])}
        case Kind.CALL_STARTED:
            return {"open_calls": (*run.open_calls, data["callId"])}
        case Kind.CALL_FINISHED:
            return {"open_calls": tuple(call for call in run.open_calls if call != data["callId"])}
        case Kind.RUN_STARTED:  # again, if it is gone on with
            complete = run.usage.complete and (run.first_seq == record.seq or run.status is not None)
            usage = replace(run.usage, complete=complete)
            return {"status": None, "ended": None, "reason": "", "source": None, "error": "", "usage": usage}
        case Kind.RUN_ENDED:
            status = RunStatus(data["status"])
            error = data.get("error")
            complete = run.usage.complete and status in COUNTED
            return {
                "status": status,
                "ended": data["timestamp"],
                "reason": data.get("reason", ""),
                "source": CancelSource(data["source"]) if "source" in data else None,
                "error": "" if error is None else f"{error['type']}: {error['message']}",
                "usage": replace(run.usage, complete=complete),
            }
        case _:
            return {}
