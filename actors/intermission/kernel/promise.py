"""`Promise`: a reply that one thread waits for and another gives, once."""

import _thread
from typing import Generic, TypeVar

__all__ = ["Promise"]

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that comes later. The first answer stands; later ones are ignored. One waits.

    Two bare locks, because one is made for each event: `_open` is there to be taken by the first answer,
    `_waiting` is held until then.
    """

    __slots__ = ("_error", "_open", "_value", "_waiting")

    def __init__(self) -> None:
        self._open = _thread.allocate_lock()
        self._waiting = _thread.allocate_lock()
        self._waiting.acquire()
        self._value: T | None = None
        self._error: BaseException | None = None

    def keep(self, value: T) -> None:
        """Answer with `value`."""
        if self._open.acquire(blocking=False):
            self._value = value
            self._waiting.release()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, which the waiting thread raises."""
        if self._open.acquire(blocking=False):
            self._error = error
            self._waiting.release()

    @property
    def answered(self) -> bool:
        """Whether `wait` would return at once."""
        return not self._waiting.locked()

    def wait(self) -> T:
        """Return the value when it is there, or raise the error."""
        with self._waiting:
            pass
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is a T unless there is an error
