"""Ends of runs: what their results are, and who ends a run whose session's actor has stopped."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from intermission.errors import SessionClosedError
from intermission.keys import SessionKey
from intermission.pending import PendingCall, oldest_first
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import COUNTED, RunResult, RunStatus, Verdict
from intermission.sessions.batch import Batch
from intermission.sessions.current import CurrentRun, Phase
from intermission.sessions.host import Host
from intermission.sessions.reading import events_of_run
from intermission.sessions.writer import SessionWriter
from intermission_storage import Appended, StaleClaimError, StorageError

__all__ = ["abandon", "result_of", "unwritten"]

logger = logging.getLogger(__name__)


def result_of(
    host: Host, key: SessionKey, current: CurrentRun, verdict: Verdict, last_seq: int | None
) -> RunResult:
    """Return the result of a run that has records; without a number its end is not among them."""
    usage = current.usage
    if verdict.status not in COUNTED:
        usage = replace(usage, complete=False)  # a call that failed or was left has cost tokens too
    invocation_id = current.run.invocation_id or ""
    return RunResult(
        status=verdict.status,
        text=current.text,
        usage=usage,
        error=verdict.error,
        reason=verdict.reason,
        invocation_id=invocation_id,
        last_seq=last_seq,
        pending=_pending(current, verdict),
        read_events=partial(events_of_run, host.log, key.stream, invocation_id),
    )


def _pending(current: CurrentRun, verdict: Verdict) -> tuple[PendingCall, ...]:
    if verdict.status is not RunStatus.PAUSED or current.pauses is None:
        return ()
    return tuple(oldest_first(current.pauses.calls.values()))


def unwritten(run: Lifecycle, verdict: Verdict) -> RunResult:
    """Return the result of a run of which nothing is in the log."""
    if verdict.status is RunStatus.INTERRUPTED:
        # Nobody can go on with what is not there.
        error = SessionClosedError("the runner was closed before this run began; nothing of it was stored")
        verdict = Verdict(RunStatus.FAILED, error=error)
    return RunResult.without_records(verdict, run.invocation_id)


def abandon(
    host: Host,
    key: SessionKey,
    current: CurrentRun,
    error: Exception,
    ended: Callable[[Lifecycle, RunResult, CurrentRun | None], None],
) -> None:
    """End a run whose session's actor stops: its end is given to the log, whose thread ends the run.

    Args:
        host: The runner.
        key: The session.
        current: The run.
        error: Why the actor stops.
        ended: Called with the run and its result, and the run as the session sees it if it has records.
    """
    run = current.run
    verdict = run.decide(Verdict(RunStatus.FAILED, error=error))

    def begun(outcome: Appended | StorageError) -> None:
        if isinstance(outcome, StorageError):
            ended(run, unwritten(run, verdict), None)
        else:
            current.token = outcome.token
            _end_abandoned(host, key, current, verdict, ended)

    if current.phase is Phase.CLAIMING:
        current.leave_to(begun)
    elif current.token is None:
        ended(run, unwritten(run, verdict), None)
    else:
        _end_abandoned(host, key, current, verdict, ended)


def _end_abandoned(
    host: Host,
    key: SessionKey,
    current: CurrentRun,
    verdict: Verdict,
    ended: Callable[[Lifecycle, RunResult, CurrentRun | None], None],
) -> None:
    run = current.run

    def stored(_: Batch, outcome: Appended | StorageError) -> None:
        if isinstance(outcome, Appended):
            ended(run, result_of(host, key, current, verdict, outcome.position), current)
        elif isinstance(outcome, StaleClaimError) and current.phase is Phase.ENDING:
            ended(run, result_of(host, key, current, verdict, None), current)  # its own end was there before
        else:
            refused(outcome)

    def refused(why: Exception) -> None:
        failed = replace(verdict, status=RunStatus.FAILED, error=verdict.error or why)
        ended(run, result_of(host, key, current, failed, None), current)

    try:
        SessionWriter(key, host, stored).end(current, verdict)
    except Exception as why:
        extra = {"session": key.session_id, "user": key.user_id, "invocation": run.invocation_id}
        logger.exception("the end of run %s could not be stored", run.invocation_id, extra=extra)
        refused(why)
