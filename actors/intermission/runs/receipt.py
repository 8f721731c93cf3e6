"""What a cancel answers: `CancelReceipt` at once, `CancelReport` as long as one asks."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from intermission.runs.result import CancelSource, RunStatus
from intermission.runs.work import Escalation

__all__ = ["CancelOutcome", "CancelReceipt", "CancelReport", "ResidualOutcome", "ResidualWork"]


class CancelOutcome(StrEnum):
    """What a cancel found."""

    ACCEPTED = "accepted"
    """The run ends by this cancel, or by an earlier one."""
    ALREADY_ENDING = "already_ending"
    """The run had chosen an end of its own; the cancel leaves no trace."""
    ALREADY_ENDED = "already_ended"
    NOTHING_RUNNING = "nothing_running"


@dataclass(frozen=True, slots=True)
class ResidualWork:
    """Work that outlives its run: what cannot be interrupted and has not returned yet.

    Attributes:
        user_id: The session's user.
        session_id: The session.
        invocation_id: The run.
        what: `"agent"`, `"model"`, `"tool"`, `"call"`, `"callback"`, one of an agent or a plugin,
            `"hook"`, one of a call's `on_cancel`, or `"process"`, one that a tool with `isolation="process"`
            has started and that has left its group.
        name: The agent's, model's, tool's or function's name; a process's command and number.
        call_id: The function call's id, for a tool and for a process.
        seconds: How long ago the run gave it up.
        reason: Why.
    """

    user_id: str
    session_id: str
    invocation_id: str
    what: str
    name: str
    call_id: str | None
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ResidualOutcome:
    """What came of residual work when it had really ended. Nothing of it is stored.

    Attributes:
        value: What it returned: a tool's response, a model's last response, a function's value.
        error: What it raised; `None` if nothing.
    """

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CancelReceipt:
    """What is known of a cancel when the call returns.

    Attributes:
        outcome: `accepted`, `already_ending`, `already_ended` or `nothing_running`.
        durable: Whether the run's end is stored; from then on it survives a kill of the process.
        still_running: The work of the run that had not returned.
        last_seq: The number of the run's last record, a lower bound unless the call waited.
    """

    outcome: CancelOutcome
    durable: bool = False
    still_running: tuple[ResidualWork, ...] = ()
    last_seq: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the run ends by a cancel."""
        return self.outcome is CancelOutcome.ACCEPTED

    @property
    def already_ending(self) -> bool:
        """Whether the run had chosen an end of its own."""
        return self.outcome is CancelOutcome.ALREADY_ENDING

    @property
    def already_ended(self) -> bool:
        """Whether the run was over."""
        return self.outcome is CancelOutcome.ALREADY_ENDED

    @property
    def nothing_running(self) -> bool:
        """Whether there was no such run."""
        return self.outcome is CancelOutcome.NOTHING_RUNNING


@dataclass(frozen=True, slots=True)
class CancelReport:
    """How far a cancel has come. Times are seconds of a monotonic clock.

    Attributes:
        source: Who or what cancelled the run.
        reason: Why.
        requested: When.
        acknowledged: When the run's end was stored and its session free; `None` before.
        terminated: When all work of the run had really returned; `None` before.
        race_winner: How the run ended, for a cancel that came too late as well.
        still_running: The work that has not returned yet.
        escalations: What was done to work that did not end by being asked, in order.
    """

    source: CancelSource
    reason: str
    requested: float
    acknowledged: float | None
    terminated: float | None
    race_winner: RunStatus | None
    still_running: tuple[ResidualWork, ...]
    escalations: tuple[Escalation, ...] = ()
