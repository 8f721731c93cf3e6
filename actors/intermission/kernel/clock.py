"""`Clock`: what time it is. Clocks stamp events; they order nothing."""

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """A source of time."""

    def time(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back, from an unknown start."""
        ...


class SystemClock:
    """The machine's clocks."""

    def time(self) -> float:
        """See `Clock.time`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()
