"""Which run's user code is running here: for runs inside runs."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from intermission.kernel.scope import CancelScope
from intermission.runs.lifecycle import Lifecycle

__all__ = ["Current", "current", "current_call"]


@dataclass(frozen=True, slots=True)
class Current:
    """The run, and the scope of the call in it."""

    run: Lifecycle
    scope: CancelScope


_current: ContextVar[Current | None] = ContextVar("intermission_current_call", default=None)


def current() -> Current | None:
    """Return the call in which this code runs, `None` outside of all."""
    return _current.get()


@contextmanager
def current_call(run: Lifecycle, scope: CancelScope) -> Generator[None]:
    """Let the code inside know its call."""
    token = _current.set(Current(run, scope))
    try:
        with scope.covering():
            yield
    finally:
        _current.reset(token)
