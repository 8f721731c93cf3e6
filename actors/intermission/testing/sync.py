"""`Gate` and `Sequencer`: hold a thread at a known point, or order two of them. Never a sleep."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["PATIENCE", "Gate", "Sequencer"]

PATIENCE = 30.0  # seconds; a test that waits longer than this has hung


class Gate:
    """A point that code under test stops at until the test lets it go on.

    The code calls `wait()`; the test calls `arrived()` to know that somebody stands there, then `open()`.
    An open gate stops nobody.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._arrivals = 0
        self._open = False

    def wait(self, timeout: float = PATIENCE) -> None:
        """Stop here until the gate is open.

        Raises:
            TimeoutError: It was not opened within `timeout` seconds.
        """
        with self._condition:
            self._arrivals += 1
            self._condition.notify_all()
            if not self._condition.wait_for(lambda: self._open, timeout):
                raise TimeoutError(f"the gate was not opened within {timeout} s")

    def arrived(self, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until `wait` has been called `count` times in all.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: self._arrivals >= count, timeout):
                raise TimeoutError(f"{self._arrivals} of {count} arrived at the gate within {timeout} s")

    def open(self) -> None:
        """Let everybody through, now and later."""
        with self._condition:
            self._open = True
            self._condition.notify_all()

    @property
    def arrivals(self) -> int:
        """How often `wait` has been called."""
        with self._condition:
            return self._arrivals


class Sequencer:
    """An order for steps in several threads: `with sequencer(2):` begins when the steps 0 and 1 have ended.

    Each number from 0 on is used exactly once.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._next = 0
        self._taken: set[int] = set()

    @contextmanager
    def __call__(self, position: int, timeout: float = PATIENCE) -> Generator[None]:
        """Wait for the turn of `position`; leaving the block, by an exception too, gives it to the next.

        Raises:
            ValueError: The position was used before.
            TimeoutError: Its turn did not come within `timeout` seconds.
        """
        with self._condition:
            if position in self._taken:
                raise ValueError(f"position {position} was used before")
            self._taken.add(position)
            if not self._condition.wait_for(lambda: self._next == position, timeout):
                raise TimeoutError(
                    f"the turn of {position} did not come within {timeout} s; it is at {self._next}"
                )
        try:
            yield
        finally:
            with self._condition:
                self._next = position + 1
                self._condition.notify_all()
