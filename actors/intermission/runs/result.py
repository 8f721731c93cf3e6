"""How a run ended: `RunStatus` and `RunResult`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from intermission.errors import RunInterruptedError
from intermission.events import Event, Usage

__all__ = ["RunResult", "RunStatus"]


class RunStatus(StrEnum):
    """How a run ended. (Pauses, stops and deadlines, and their statuses, are not there yet.)"""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


def _no_events() -> list[Event]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
        status: How it ended.
        text: The text of its last final event; `""` if there is none.
        usage: The tokens of its stored events.
        error: What failed it, if it failed.
        reason: Why it was cancelled, if it was.
        invocation_id: The run's id; `None` if it ended before it began.
        last_seq: The number of its last record in the session; `None` if it has none.
    """

    status: RunStatus
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    error: Exception | None = None
    reason: str = ""
    invocation_id: str | None = None
    last_seq: int | None = None
    read_events: Callable[[], list[Event]] = field(default=_no_events, repr=False, compare=False)

    @property
    def events(self) -> list[Event]:
        """The run's stored events, the user's message first, read from the log when asked for.

        Raises:
            StorageError: The log cannot be read; after the runner's `close` it is `LogClosedError`.
        """
        return self.read_events()

    def raise_for_status(self) -> None:
        """Raise the run's error if it failed, `RunInterruptedError` if it was cancelled; else do nothing."""
        if self.status is RunStatus.COMPLETED:
            return
        if self.error is not None:
            raise self.error
        raise RunInterruptedError(self.invocation_id, self.status, self.reason)
