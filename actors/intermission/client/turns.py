"""One turn of a client's agent: starting it, waiting for it in the caller's scope, and what it comes to."""

import logging
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from intermission.client.errors import CancelledError
from intermission.client.result import LlmResult
from intermission.client.waits import wait_until
from intermission.errors import RunInterruptedError
from intermission.kernel.dispatcher import blocking_here
from intermission.kernel.scope import CancelScope
from intermission.kernel.waits import ReentrantRunError
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.result import CancelSource, RunResult, RunStatus
from intermission.runs.run import Run, lifecycle_of
from intermission.runs.states import RunState
from intermission.runs.waiting import waiting
from intermission_storage.wakeup import Wakeup

__all__ = ["SUCCESSES", "OnCallerCancel", "TurnResult", "admitted", "cancelled", "end", "outcome", "take"]

logger = logging.getLogger(__name__)

SUCCESSES: Final = frozenset({RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.PAUSED})
"""The ends of a turn that are a success of the call."""

_PATIENCE = 5.0  # seconds; a cancelled turn ends in far less, unless its end cannot be stored


class OnCallerCancel(StrEnum):
    """What becomes of a turn when the scope of who waits for it is cancelled."""

    DETACH = "detach"
    """It goes on."""
    CANCEL = "cancel"
    """It is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult(RunResult):
    """What a turn came to, with the session that it belongs to.

    Attributes:
        session_id: The session.
    """

    session_id: str


def take(run: Run, policy: OnCallerCancel) -> LlmResult[TurnResult]:
    """Start a turn, wait for it in the current scope, and return what it came to.

    Args:
        run: A cold run; or one that is under way, which is joined.
        policy: What becomes of it if the wait does not last to its end.
    """
    scope, turn = CancelScope.current(), lifecycle_of(run)
    changed = Wakeup()
    joined = turn.state != RunState.CREATED
    try:
        run.begin()
        forget = turn.listen(changed.wake)
        try:
            with waiting(turn):
                wait_until(changed, lambda: turn.result is not None, None, scope)
        finally:
            forget()
    except ReentrantRunError as error:
        if not joined:  # else it may be the very turn that asks
            turn.cancel(CancelSource.CALLER, "its caller would have waited for itself")
        return LlmResult[TurnResult].failure(error)
    except BaseException:  # a Ctrl-C
        if policy is OnCallerCancel.CANCEL:
            end(turn, "its caller was interrupted")
        raise
    if turn.result is None and scope is not None and policy is OnCallerCancel.CANCEL:
        end(turn, scope.reason or "its caller was cancelled")
    if turn.result is None:
        return LlmResult[TurnResult].failure(_given_up(turn, scope, policy))
    return outcome(turn)


def admitted(run: Run) -> LlmResult[TurnResult] | None:
    """Start a turn and wait until its session has taken it; return what is wrong if it has not.

    If the current scope is cancelled meanwhile, the turn is, too: nobody would know of it.
    """
    scope, turn = CancelScope.current(), lifecycle_of(run)
    changed = Wakeup()

    def is_known() -> bool:
        return turn.admitted or turn.result is not None

    try:
        run.begin()
        forget = turn.listen(changed.wake)
        try:
            with blocking_here():
                wait_until(changed, is_known, None, scope)
        finally:
            forget()
    except BaseException:  # a Ctrl-C
        turn.cancel(CancelSource.CALLER, "its caller was interrupted")
        raise
    if not is_known() and scope is not None:
        end(turn, scope.reason or "its caller was cancelled")
        return LlmResult[TurnResult].failure(cancelled("the call was cancelled", scope, turn))
    result = turn.result
    refused = not turn.admitted and result is not None and result.status not in SUCCESSES
    return outcome(turn) if refused else None


def end(turn: Lifecycle, reason: str) -> bool:
    """Cancel a turn, wait for its end, no cancel shortens that, and return whether it has come in time."""
    turn.cancel(CancelSource.CALLER, reason)
    with blocking_here():
        ended = turn.wait_ended(_PATIENCE) is not None
    if not ended:
        extra = {"session": turn.key.session_id, "invocation": turn.invocation_id}
        logger.warning("a turn was cancelled and has not ended within %s s", _PATIENCE, extra=extra)
    return ended


def outcome(turn: Lifecycle) -> LlmResult[TurnResult]:
    """Return what a turn that has ended came to."""
    result = turn.wait_ended(None)
    assert result is not None
    session_id = turn.key.session_id
    if result.status in SUCCESSES:
        given = {field.name: getattr(result, field.name) for field in fields(RunResult)}
        return LlmResult[TurnResult].success(TurnResult(**given, session_id=session_id))
    error = result.error
    if error is None and result.status is RunStatus.CANCELLED:
        verdict = turn.verdict
        error = CancelledError(
            "the turn was cancelled",
            reason=result.reason,
            source=None if verdict is None else verdict.source,
            session_id=session_id,
            invocation_id=result.invocation_id,
        )
    if error is None:
        error = RunInterruptedError(result.invocation_id, result.status, result.reason)
    return LlmResult[TurnResult].failure(error)


def cancelled(what: str, scope: CancelScope, turn: Lifecycle | None = None) -> CancelledError:
    """Return the error of a call whose scope is cancelled."""
    return CancelledError(
        what,
        reason=scope.reason,
        source=scope.source,
        session_id=None if turn is None else turn.key.session_id,
        invocation_id=None if turn is None else turn.invocation_id,
    )


def _given_up(turn: Lifecycle, scope: CancelScope | None, policy: OnCallerCancel) -> CancelledError:
    assert scope is not None  # else the wait has lasted to the end of the turn
    if policy is OnCallerCancel.CANCEL:
        return cancelled("the turn was cancelled, and has not ended yet", scope, turn)
    return cancelled("the wait was cancelled, and the turn goes on", scope, turn)
