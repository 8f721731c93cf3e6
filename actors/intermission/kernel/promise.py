"""`Promise`: a reply that comes later, once, for which a thread waits or somebody is called."""

import _thread
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Promise"]

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that comes later. The first answer stands; later ones are ignored. One waits.

    Two bare locks, because one is made for each event: `_open` is there to be taken by the first answer,
    `_waiting` is held until then.
    """

    __slots__ = ("_callbacks", "_error", "_open", "_value", "_waiting")

    def __init__(self) -> None:
        self._open = _thread.allocate_lock()
        self._waiting = _thread.allocate_lock()
        self._waiting.acquire()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def keep(self, value: T) -> None:
        """Answer with `value`."""
        if self._open.acquire(blocking=False):
            self._value = value
            self._tell()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, which the waiting thread raises."""
        if self._open.acquire(blocking=False):
            self._error = error
            self._tell()

    @property
    def answered(self) -> bool:
        """Whether `wait` would return at once."""
        return not self._waiting.locked()

    @property
    def kept(self) -> bool:
        """Whether it was answered, and with a value."""
        return self.answered and self._error is None

    def wait(self) -> T:
        """Return the value when it is there, or raise the error."""
        with self._waiting:
            pass
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is a T unless there is an error

    def call_back(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called when there is an answer, on the thread that gives it.

        Returns:
            Whether it will be; `False` if there is an answer already.
        """
        self._callbacks = [callback]
        # Set first, then looked: of the two who may find it, one takes it out.
        return self._waiting.locked() or self._take() is None

    def _tell(self) -> None:
        self._waiting.release()
        callback = self._take()
        if callback is not None:
            callback()

    def _take(self) -> Callable[[], None] | None:
        callbacks = self._callbacks
        if callbacks is None:
            return None
        try:
            return callbacks.pop()
        except IndexError:
            return None
