"""`ManualClock`: time that stands still until the test moves it."""

import threading

__all__ = ["ManualClock"]


class ManualClock:
    """A `Clock` that only `advance` moves.

    Args:
        start: Seconds since the epoch at which it stands.
    """

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._lock = threading.Lock()
        self._start = start
        self._elapsed = 0.0

    def time(self) -> float:
        """See `Clock.time`."""
        with self._lock:
            return self._start + self._elapsed

    def monotonic(self) -> float:
        """See `Clock.monotonic`. It begins at zero."""
        with self._lock:
            return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move both clocks on by `seconds`.

        Raises:
            ValueError: `seconds` is negative: these clocks never go back.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        with self._lock:
            self._elapsed += seconds
