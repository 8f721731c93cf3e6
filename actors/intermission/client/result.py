"""`LlmResult`: what a call of a client came to, a value or an error."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, cast

from intermission.client.errors import LlmError, is_recoverable, kind_of, retry_after_of
from intermission.errors import ModelErrorKind

__all__ = ["LlmResult"]

T = TypeVar("T")
U = TypeVar("U")


class LlmResult(Generic[T]):
    """A success with a value, or a failure with an error. It never changes; any thread may read it."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: T | None, error: Exception | None) -> None:
        self._value = value
        self._error = error

    @classmethod
    def success(cls, value: T) -> "LlmResult[T]":
        """Return a success."""
        return cls(value, None)

    @classmethod
    def failure(cls, error: Exception) -> "LlmResult[Any]":
        """Return a failure."""
        return LlmResult[Any](None, error)

    @property
    def is_success(self) -> bool:
        """Whether there is a value."""
        return self._error is None

    @property
    def is_failure(self) -> bool:
        """Whether there is an error."""
        return self._error is not None

    @property
    def error(self) -> Exception | None:
        """What failed the call; `None` for a success."""
        return self._error

    @property
    def kind(self) -> ModelErrorKind | None:
        """What kind of trouble the error is; `None` for a success."""
        return None if self._error is None else kind_of(self._error)

    @property
    def recoverable(self) -> bool:
        """Whether it failed, and the same call may well succeed later."""
        return self._error is not None and is_recoverable(self._error)

    @property
    def retry_after(self) -> float | None:
        """Seconds that the service asks to wait before another try, if it said so."""
        return None if self._error is None else retry_after_of(self._error)

    def get(self) -> T:
        """Return the value.

        Raises:
            LlmError: It is a failure; the error is its cause.
        """
        if self._error is not None:
            raise LlmError(self._error) from self._error
        return cast(T, self._value)

    def get_or_none(self) -> T | None:
        """Return the value, or `None` for a failure."""
        return self._value

    def map(self, function: Callable[[T], U]) -> "LlmResult[U]":
        """Return a success with what `function` makes of the value, or the same failure.

        What the function raises passes.
        """
        if self._error is not None:
            return LlmResult[U].failure(self._error)
        return LlmResult[U].success(function(cast(T, self._value)))

    def to_future(self) -> "Future[T]":
        """Return a future that is done: it has the value, or raises what `get` raises.

        That makes no call asynchronous: `cancel()` of it returns false and changes nothing.
        """
        future: Future[T] = Future()
        if self._error is None:
            future.set_result(cast(T, self._value))
        else:
            error = LlmError(self._error)
            error.__cause__ = self._error
            future.set_exception(error)
        return future

    def __repr__(self) -> str:
        if self._error is None:
            return f"LlmResult.success({self._value!r})"
        return f"LlmResult.failure({self._error!r})"
