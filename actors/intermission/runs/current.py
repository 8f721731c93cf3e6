"""Which run's user code is running here: for runs inside runs."""

from contextvars import ContextVar
from typing import NamedTuple

from intermission.kernel.scope import CancelScope
from intermission.runs.lifecycle import Lifecycle

__all__ = ["Current", "CurrentCall", "current"]


class Current(NamedTuple):
    """The run, and the scope of the call in it."""

    run: Lifecycle
    scope: CancelScope


_current: ContextVar[Current | None] = ContextVar("intermission_current_call", default=None)


def current() -> Current | None:
    """Return the call in which this code runs, `None` outside of all."""
    return _current.get()


class CurrentCall:
    """Let the code inside know its call. A context manager; as a generator it would take far longer."""

    __slots__ = ("_covered", "_current", "_token")

    def __init__(self, run: Lifecycle, scope: CancelScope) -> None:
        self._current = Current(run, scope)

    def __enter__(self) -> None:
        self._token = _current.set(self._current)
        self._covered = self._current.scope.cover()

    def __exit__(self, *_: object) -> None:
        self._current.scope.uncover(self._covered)
        _current.reset(self._token)
