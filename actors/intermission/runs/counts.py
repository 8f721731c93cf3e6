"""`Counts`: what the runs of one runner have come to, in numbers."""

import threading
from functools import partial
from typing import Any, Protocol

from intermission.kernel.cancel_hooks import Force
from intermission.runs.result import CancelSource, RunResult, RunStatus
from intermission.runs.work import Work
from intermission_storage import SECONDS, Histogram

__all__ = ["HOOKS", "Counted", "Counts"]

HOOKS: tuple[str, ...] = ("cancel", "plugin", "subscriber")
"""Hooks and callbacks whose errors no run takes note of."""

_LATE: tuple[str, ...] = ("model", "tool", "process", "call", "callback")
"""Work that a run can give up; see `Piece.what`."""


class Counted(Protocol):
    """A run, with what is said of its cancel."""

    work: Work
    requested: float | None
    acknowledged: float | None
    cancel_source: CancelSource | None

    @property
    def result(self) -> RunResult | None:
        """The result, `None` before the end."""
        ...


class Counts:
    """Counts since the runner was made. A run has few of these steps, so one lock serves all.

    The lock is re-entrant, for a signal handler may cancel a run in the middle of a method.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._started = 0
        self._ended = dict.fromkeys(RunStatus, 0)
        self._requested = dict.fromkeys(CancelSource, 0)
        self._acknowledged = dict.fromkeys(CancelSource, 0)
        self._terminated = dict.fromkeys(CancelSource, 0)
        self._winners = dict.fromkeys(RunStatus, 0)
        self._late = dict.fromkeys(_LATE, 0)
        self._forced = dict.fromkeys(Force, 0)
        self._hooks_failed = dict.fromkeys(HOOKS, 0)
        self._hooks_rejected = dict.fromkeys(HOOKS, 0)
        self._until_acknowledged = Histogram(SECONDS)
        self._until_released = Histogram(SECONDS)
        self._until_terminated = Histogram(SECONDS)

    def started(self) -> None:
        """A run's first records are durable."""
        with self._lock:
            self._started += 1

    def cancel_requested(self, run: Counted, source: CancelSource) -> None:
        """Somebody wants a run to be cancelled, and is the first; after its end it does not count."""
        if run.result is None:
            with self._lock:
                self._requested[source] += 1

    def ended(self, run: Counted, status: RunStatus) -> None:
        """A run has its result."""
        requested, acknowledged, source = run.requested, run.acknowledged, run.cancel_source
        with self._lock:
            self._ended[status] += 1
            if requested is None or acknowledged is None or source is None:
                return
            self._winners[status] += 1
            self._acknowledged[source] += 1
            self._until_acknowledged.observe(acknowledged - requested)
        if not run.work.holds:
            self.released(run, acknowledged)
        run.work.when_idle(partial(self._has_terminated, run.work, requested, acknowledged, source))

    def released(self, run: Counted, now: float) -> None:
        """A run's session is free for the next one; whoever says it first, the end or the end of the hold."""
        with self._lock:
            requested, acknowledged = run.requested, run.acknowledged
            if requested is None or acknowledged is None or requested > acknowledged or run.work.released:
                return
            run.work.released = True
            self._until_released.observe(now - requested)

    def _has_terminated(
        self, work: Work, requested: float, acknowledged: float, source: CancelSource
    ) -> None:
        with self._lock:
            self._terminated[source] += 1
            self._until_terminated.observe(max(acknowledged, work.terminated or 0.0) - requested)

    def late(self, what: str) -> None:
        """Work has ended that its run had given up, or after the run was cancelled."""
        with self._lock:
            self._late[what] += 1

    def forced(self, force: Force) -> None:
        """A step of force was taken against work of a run."""
        with self._lock:
            self._forced[force] += 1
            if force is Force.HOOK_REJECTED:
                self._hooks_rejected["cancel"] += 1

    def hook_failed(self, hook: str) -> None:
        """One of `HOOKS` has raised."""
        with self._lock:
            self._hooks_failed[hook] += 1

    def hook_rejected(self, hook: str) -> None:
        """One of `HOOKS` got no worker."""
        with self._lock:
            self._hooks_rejected[hook] += 1

    def snapshot(self) -> dict[str, Any]:
        """Return it all, by the names that the documentation explains."""
        with self._lock:
            return {
                "runs_started_total": self._started,
                "runs_ended_total": _plain(self._ended),
                "cancels_requested_total": _plain(self._requested),
                "cancels_acknowledged_total": _plain(self._acknowledged),
                "cancels_terminated_total": _plain(self._terminated),
                "cancel_race_winners_total": _plain(self._winners),
                "cancel_acknowledge_seconds": self._until_acknowledged.snapshot(),
                "cancel_release_seconds": self._until_released.snapshot(),
                "cancel_terminate_seconds": self._until_terminated.snapshot(),
                "late_work_total": dict(self._late),
                "forced_escalations_total": _plain(self._forced),
                "hooks_failed_total": dict(self._hooks_failed),
                "hooks_rejected_total": dict(self._hooks_rejected),
            }


def _plain(counts: dict[Any, int]) -> dict[str, int]:
    return {str(label): count for label, count in counts.items()}
