"""How a run ended: `RunStatus`, `CancelSource`, the `Verdict` that decided it, and `RunResult`."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from intermission.errors import RunInterruptedError
from intermission.events import Event, Usage
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.pending import PendingCall

__all__ = ["COUNTED", "CancelSource", "RunResult", "RunStatus", "Verdict"]


class RunStatus(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"


COUNTED = frozenset({RunStatus.COMPLETED, RunStatus.PAUSED})
"""Ends that no call of a model is left at, so that the tokens of all are known."""


class CancelSource(StrEnum):
    """Who or what cancelled a run."""

    CALLER = "caller"
    CONSUMER_LOST = "consumer_lost"
    DEADLINE = "deadline"
    SIBLING_FAILURE = "sibling_failure"
    SHUTDOWN = "shutdown"
    OVERLOAD = "overload"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run's stop slot holds: how the run ends, decided once.

    Attributes:
        status: How it ends.
        source: Who cancelled it; `None` for an end that the run chose itself.
        reason: Why, in the words of who decided it.
        error: What failed it.
    """

    status: RunStatus
    source: CancelSource | None = None
    reason: str = ""
    error: Exception | None = None

    @property
    def finishing(self) -> bool:
        """Whether the run chose this end itself: from then on only the storage can change it."""
        return self.source is None


def _no_events() -> list[Event]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
        status: How it ended.
        text: The text of its last final event; `""` if there is none.
        usage: The tokens of its stored events, also of those from before it was gone on with.
        error: What failed it, or why it expired or was never admitted.
        reason: Why it was cancelled or stopped, if it was.
        invocation_id: The run's id; `None` if it ended before it was started.
        last_seq: The number of its last record in the session; `None` if it has none.
        pending: The calls that wait for an answer, if it is paused.
    """

    status: RunStatus
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    error: Exception | None = None
    reason: str = ""
    invocation_id: str | None = None
    last_seq: int | None = None
    pending: tuple[PendingCall, ...] = ()
    read_events: Callable[[], list[Event]] = field(default=_no_events, repr=False, compare=False)

    @classmethod
    def without_records(cls, verdict: Verdict, invocation_id: str | None) -> Self:
        """Return the result of a run of which nothing is in the log."""
        error, reason = verdict.error, verdict.reason
        return cls(status=verdict.status, error=error, reason=reason, invocation_id=invocation_id)

    @property
    def events(self) -> list[Event]:
        """The run's stored events, the user's message first, read from the log when asked for.

        Raises:
            StorageError: The log cannot be read; after the runner's `close` it is `LogClosedError`.
        """
        warn_of_blocking("RunResult.events", "aevents")
        return self.read_events()

    async def aevents(self) -> list[Event]:
        """As `events`, without blocking the event loop."""
        return await asyncio.to_thread(self.read_events)

    def raise_for_status(self) -> None:
        """Do nothing if the run completed; else raise its error, or `RunInterruptedError` if it has none."""
        if self.status is RunStatus.COMPLETED:
            return
        if self.error is not None:
            raise self.error
        raise RunInterruptedError(self.invocation_id, self.status, self.reason)
