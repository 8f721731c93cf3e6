"""`Supervision`: what becomes of an actor that fails. `Terminated`: what its watchers are told."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from intermission.kernel.mailbox import Lane
from intermission.kernel.ref import ActorRef

__all__ = ["Restarts", "Supervision", "Terminated"]


@dataclass(frozen=True, slots=True)
class Supervision:
    """What the system does when `on_receive` or `on_start` of an actor raises, whoever sent the message.

    Attributes:
        strategy: `"stop"`: the actor ends. `"restart"`: a new one is made with the same arguments; reference
            and waiting messages stay, the message that failed is not handled again. `"resume"`: the actor
            goes on as it is; where it has not even started, that means `"stop"`.
        max_restarts: How many restarts are allowed within `within`; one more failure stops the actor.
        within: Seconds.

    Raises:
        ValueError: There is no such strategy, or a number is negative.
    """

    strategy: Literal["stop", "restart", "resume"] = "stop"
    max_restarts: int = 3
    within: float = 60.0

    def __post_init__(self) -> None:
        if self.strategy not in {"stop", "restart", "resume"}:
            raise ValueError(f'a strategy is "stop", "restart" or "resume", not {self.strategy!r}')
        if self.max_restarts < 0 or not self.within >= 0:
            raise ValueError(
                f"max_restarts and within are 0 or more, not {self.max_restarts} and {self.within}"
            )


class Restarts:
    """Counts the restarts of one actor against what its supervision allows."""

    __slots__ = ("_supervision", "_times")

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._times: list[float] = []

    def allow(self, now: float) -> bool:
        """Return whether the actor may be restarted at `now`, in seconds of a monotonic clock; count it."""
        since = now - self._supervision.within
        self._times = [time for time in self._times if time > since]
        if len(self._times) >= self._supervision.max_restarts:
            return False
        self._times.append(now)
        return True


@dataclass(frozen=True, slots=True)
class Terminated:
    """Told once to each actor that watches `ref`, after its `on_stop` or `on_failure`.

    Attributes:
        ref: Who has stopped.
        error: Why, if it failed; `ActorCrashError` stands for what is no `Exception`.
    """

    lane: ClassVar[Lane] = Lane.INTERNAL

    ref: ActorRef[Any]
    error: Exception | None
