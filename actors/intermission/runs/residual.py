"""What a run's work looks like to its caller: `ResidualWork`, `CancelReceipt` and `CancelReport`."""

import time
from collections.abc import Iterable

from intermission.runs.lifecycle import Lifecycle
from intermission.runs.receipt import CancelOutcome, CancelReceipt, CancelReport, ResidualWork
from intermission.runs.result import CancelSource
from intermission.runs.work import Piece

__all__ = ["receipt_of", "report_of", "residual_of", "residual_pieces", "residual_work"]


def residual_pieces(runs: Iterable[Lifecycle]) -> dict[Piece, Lifecycle]:
    """Return what of runs has not returned though they go on, or have ended, without it, and whose it is.

    What belongs to a run in a call of another is that one's, unless it is not among these.
    """
    found = dict[Piece, Lifecycle]()
    nested: list[tuple[Lifecycle, Piece]] = []
    for run in runs:
        for piece in run.work.pieces:
            if run.work.is_nested(piece):
                nested.append((run, piece))
            elif _since(run, piece) is not None:
                found[piece] = run
    for run, piece in nested:
        if piece not in found and _since(run, piece) is not None:
            found[piece] = run
    return found


def residual_of(runs: Iterable[Lifecycle]) -> list[ResidualWork]:
    """Return the same as what its callers are told of."""
    now = time.monotonic()
    found = (residual_work(run, piece, now) for piece, run in residual_pieces(runs).items())
    return [work for work in found if work is not None]


def _since(run: Lifecycle, piece: Piece) -> float | None:
    return piece.given_up if piece.given_up is not None else run.acknowledged


def residual_work(run: Lifecycle, piece: Piece, now: float) -> ResidualWork | None:
    """Return a piece of a run's work as residual work; `None` if nobody has gone on without it."""
    since = _since(run, piece)
    if since is None:
        return None
    return ResidualWork(
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        invocation_id=run.invocation_id or "",
        what=piece.what,
        name=piece.name,
        call_id=piece.call_id,
        seconds=now - since,
        reason=piece.reason or run.cancel_reason or str(run.cancel_source or "the run has ended"),
    )


def receipt_of(run: Lifecycle, outcome: CancelOutcome) -> CancelReceipt:
    """Return what is known of a cancel now."""
    result = run.result
    durable = result is not None and result.last_seq is not None
    last = result.last_seq if result is not None else (run.last_shown or None)
    return CancelReceipt(outcome, durable, _still_running(run), last)


def report_of(run: Lifecycle) -> CancelReport | None:
    """Return how far the cancel of a run has come; `None` if nobody has cancelled it."""
    if run.requested is None:
        return None
    pieces = run.work.pieces
    terminated = None
    if run.acknowledged is not None and not pieces:
        terminated = max(run.acknowledged, run.work.terminated or 0.0)
    return CancelReport(
        source=run.cancel_source or CancelSource.CALLER,
        reason=run.cancel_reason,
        requested=run.requested,
        acknowledged=run.acknowledged,
        terminated=terminated,
        race_winner=None if run.result is None else run.result.status,
        still_running=_still_running(run),
        escalations=run.work.escalations,
    )


def _still_running(run: Lifecycle) -> tuple[ResidualWork, ...]:
    now = time.monotonic()
    return tuple(
        ResidualWork(
            user_id=run.key.user_id,
            session_id=run.key.session_id,
            invocation_id=run.invocation_id or "",
            what=piece.what,
            name=piece.name,
            call_id=piece.call_id,
            seconds=now - (piece.given_up or run.requested or now),
            reason=piece.reason or run.cancel_reason,
        )
        for piece in run.work.pieces
    )
