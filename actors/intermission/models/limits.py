"""`Limits`: how long a call to a model may take, and `CallLimits`, the same for a call that has begun."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import Timer

__all__ = ["CallLimits", "Limits"]

_ERROR_BODY_TIME = 5.0  # seconds to wait for what a service says of its refusal; its status says enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds; `None` is no limit. The names are those of the models' keywords, and of `ModelError.limit`.

    Attributes:
        connect_timeout: Until the connection stands: name look-up, TCP, proxy and TLS.
        first_token_timeout: From then to the first piece of a streamed answer that says something.
        gap_timeout: From one such piece to the next. Pings and empty pieces do not count.
        total_timeout: For a whole call that is not streamed, retries and the waits before them included.
        stream_total_timeout: The same for a streamed one.

    Raises:
        ValueError: A limit is not a positive number.
    """

    connect_timeout: float | None = 10.0
    first_token_timeout: float | None = 60.0
    gap_timeout: float | None = 60.0
    total_timeout: float | None = 120.0
    stream_total_timeout: float | None = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            seconds: float | None = getattr(self, field.name)
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(
                    f"{field.name} must be a positive number of seconds, or None for no limit, not {seconds}"
                )


class CallLimits:
    """The limits of one call that begins now, in the scope that is current, by the clock of its timer.

    Attributes:
        scope: Covers the call; a cancel of it ends the call.
        timer: Looks after the limits.
        total: The name of the limit for all of it.
        deadline: When that passes, on the timer's clock; infinity for never.
    """

    __slots__ = ("_seconds", "deadline", "scope", "timer", "total")

    def __init__(self, limits: Limits, *, streaming: bool) -> None:
        self.scope = CancelScope.current() or CancelScope.child_of(None)
        self.timer: Timer = self.scope.timer
        self.total = "stream_total_timeout" if streaming else "total_timeout"
        self._seconds: Mapping[str, float | None] = {
            "connect_timeout": limits.connect_timeout,
            # An answer in one piece may take all the time there is to its first byte.
            "first_token_timeout": limits.first_token_timeout if streaming else None,
            "gap_timeout": limits.gap_timeout if streaming else None,
            "total_timeout": limits.total_timeout,
            "stream_total_timeout": limits.stream_total_timeout,
            "error_body": _ERROR_BODY_TIME,
        }
        self.deadline = self.timer.clock.monotonic() + self.seconds(self.total)

    def seconds(self, limit: str) -> float:
        """Return how long a limit is; infinity for none."""
        seconds = self._seconds[limit]
        return math.inf if seconds is None else seconds

    def leaves(self, seconds: float) -> bool:
        """Return whether the call still has more than `seconds`."""
        return self.timer.clock.monotonic() + seconds < self.deadline
