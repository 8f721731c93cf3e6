"""`metrics_of`: what a runner counts and has at the moment, as plain values."""

from collections import Counter
from typing import Any

from intermission.runs.residual import residual_pieces
from intermission.runs.states import RunState
from intermission.runs.work import WHAT
from intermission.sessions.directory import Directory
from intermission.sessions.host import Host
from intermission_storage import Measured

__all__ = ["metrics_of"]


def metrics_of(host: Host, directory: Directory) -> dict[str, Any]:
    """Return numbers, numbers by label, and histograms, by the names that the documentation explains."""
    services, log = host.services, host.log
    open_runs = directory.runs()
    states = Counter(run.state for run in open_runs)
    residual = residual_pieces([*directory.lingering(), *open_runs])
    left = Counter(piece.what for piece in residual)
    return {
        **services.counts.snapshot(),
        "runs_queued": states[RunState.QUEUED],
        "runs_active": len(open_runs) - states[RunState.QUEUED],
        "sessions_active": directory.active,
        "sessions_held": directory.holds.count,
        "mailbox_messages": directory.mail,
        "residual_work": {what: left[what] for what in WHAT},
        "residual_workers": sum(piece.on_thread and piece.what != "process" for piece in residual),
        "workers_busy": services.workers.busy,
        "workers_idle": services.workers.idle,
        "workers_waiting": services.workers.waiting,
        "workers_peak": services.workers.peak,
        "workers_refused_total": services.workers.refused_count,
        "async_calls": services.loops.running,
        "async_loops_blocked_total": services.loops.blocked,
        "handoffs_total": {"actors": services.dispatcher.activations, "workers": services.workers.begun},
        **(log.metrics() if isinstance(log, Measured) else {}),
    }
