"""Calls in threads of their own: waited for with a limit, and given up without holding the process."""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["PATIENCE", "Background", "together"]

PATIENCE = 30.0  # seconds; what takes longer has hung

T = TypeVar("T")


class Background(Generic[T]):
    """A call that runs in a thread from now on.

    The thread is a daemon: a log that hangs fails its test and does not keep the process from ending.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Return or raise what the call did.

        Raises:
            AssertionError: It has not ended within `PATIENCE` seconds.
        """
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"a call has not returned within {PATIENCE} s"
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._errors.append(error)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Begin all calls at one moment, each in a thread, and return what they return."""
    start = threading.Barrier(len(calls), timeout=PATIENCE)

    def begin(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    running = [Background(functools.partial(begin, call)) for call in calls]
    return [background.result() for background in running]
