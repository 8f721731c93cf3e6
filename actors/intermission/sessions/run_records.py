"""`RunRecord`: what the log says of one run, whether it has ended or not."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from intermission.events import Usage
from intermission.runs.result import CancelSource, RunStatus
from intermission_storage import EventLog, Kind, Record

__all__ = ["RunRecord", "runs_in_log"]

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


def runs_in_log(log: EventLog, stream: str) -> list[RunRecord]:
    """Return the runs of a session, oldest first.

    Raises:
        StorageError: The log cannot be read.
    """
    runs: dict[str, RunRecord] = {}
    after = 0
    while page := log.read(stream, after=after, limit=_PAGE):
        _fold(runs, page)
        after = page[-1].seq
    return list(runs.values())


def _fold(runs: dict[str, RunRecord], records: Iterable[Record]) -> None:
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
            return {"status": None, "ended": None, "reason": "", "source": None, "error": ""}
        case Kind.RUN_ENDED:
            status = RunStatus(data["status"])
            error = data.get("error")
            complete = run.usage.complete and status is RunStatus.COMPLETED
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
