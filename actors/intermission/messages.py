"""What one may say to a session or an agent."""

from dataclasses import dataclass
from typing import ClassVar

from intermission.config import RunConfig
from intermission.content import Content
from intermission.kernel.mailbox import Lane

__all__ = ["PoisonPill", "StartRun", "Stop"]


@dataclass(frozen=True, slots=True)
class StartRun:
    """To a session: run its app's agent on a message, behind the runs that wait. It answers with a `Run`.

    Attributes:
        message: What the user says.
        config: The run's settings; the runner's by default.
    """

    message: str | Content
    config: RunConfig | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """To a session or an agent: end after the step in hand, with everything in order.

    Attributes:
        reason: Why; it is kept in the log.
        invocation_id: The run that is meant, also if it is not there yet. Without, it is the one that is
            under way when the message is handled.
    """

    lane: ClassVar[Lane] = Lane.CONTROL
    reason: str = ""
    invocation_id: str | None = None


@dataclass(frozen=True, slots=True)
class PoisonPill:
    """To a session, an agent, a model or a tool: end now. A run that is under way ends `cancelled`.

    Attributes:
        reason: Why; it is kept in the log.
        invocation_id: As that of `Stop`.
    """

    lane: ClassVar[Lane] = Lane.CONTROL
    reason: str = ""
    invocation_id: str | None = None
