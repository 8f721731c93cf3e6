"""`ManualClock`: time that stands still until the test moves it."""

import threading
from collections.abc import Callable

__all__ = ["ManualClock"]


class ManualClock:
    """A `Clock` that only `advance` moves. The time limits of a runner that has it follow at once.

    Args:
        start: Seconds since the epoch at which it stands.
    """

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._lock = threading.Lock()
        self._start = start
        self._elapsed = 0.0
        self._hooks: dict[object, Callable[[], object]] = {}

    def time(self) -> float:
        """See `Clock.time`."""
        with self._lock:
            return self._start + self._elapsed

    def monotonic(self) -> float:
        """See `Clock.monotonic`. It begins at zero."""
        with self._lock:
            return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move both clocks on by `seconds`. When this returns, every deadline that has come has been heeded.

        Raises:
            ValueError: `seconds` is negative: these clocks never go back.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        with self._lock:
            self._elapsed += seconds
            hooks = list(self._hooks.values())
        for hook in hooks:
            hook()

    def on_advance(self, hook: Callable[[], object]) -> Callable[[], object]:
        """Call `hook` after each move; return what ends that."""
        key = object()
        with self._lock:
            self._hooks[key] = hook
        return lambda: self._hooks.pop(key, None)
