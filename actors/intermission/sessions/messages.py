"""What the directory says to a session's actor. What an agent says is in `intermission.messages`."""

import threading
from dataclasses import dataclass

from intermission.runs.lifecycle import Lifecycle

__all__ = ["EndRun", "QueueRun", "Retire"]


@dataclass(frozen=True, slots=True)
class QueueRun:
    """Run this, after the runs that came before."""

    run: Lifecycle


@dataclass(frozen=True, slots=True)
class Retire:
    """Take no more runs, refuse those that wait, and set `idle` when none is under way."""

    idle: threading.Event


@dataclass(frozen=True, slots=True)
class EndRun:
    """End the run that is under way, if there is one: it is `cancelled`, for `reason`."""

    reason: str
