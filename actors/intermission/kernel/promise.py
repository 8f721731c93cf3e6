"""`Promise`: a reply that one thread waits for and another gives, once."""

import threading
from typing import Generic, TypeVar, cast

__all__ = ["Promise"]

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that comes later. The first answer stands; later ones are ignored."""

    __slots__ = ("_done", "_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def keep(self, value: T) -> None:
        """Answer with `value`."""
        with self._lock:
            if not self._done.is_set():
                self._value = value
                self._done.set()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, which the waiting thread raises."""
        with self._lock:
            if not self._done.is_set():
                self._error = error
                self._done.set()

    def wait(self) -> T:
        """Return the value when it is there, or raise the error."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return cast(T, self._value)
