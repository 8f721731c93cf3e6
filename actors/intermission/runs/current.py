"""Which run's user code is running here: for runs inside runs."""

from collections.abc import Hashable
from contextvars import ContextVar
from typing import NamedTuple

from intermission.kernel.scope import CancelScope
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.services import Services
from intermission.runs.work import Piece

__all__ = ["Current", "CurrentCall", "current", "place_of", "waiter"]


class Current(NamedTuple):
    """The run, the scope of the call in it, and the piece of work that the call is."""

    run: Lifecycle
    scope: CancelScope
    piece: Piece


_current: ContextVar[Current | None] = ContextVar("intermission_current_call", default=None)


def current() -> Current | None:
    """Return the call in which this code runs, `None` outside of all.

    What a call has left running has the context variables of the call; it is in none when that is over.
    """
    found = _current.get()
    return found if found is not None and found.run.work.is_open(found.piece) else None


def waiter() -> Lifecycle | None:
    """Return the run that waits for whatever this code waits for, if one does: it, or its session's next."""
    found = current()
    if found is None or (found.run.result is not None and not found.run.work.holds):
        return None
    return found.run


def place_of(run: Lifecycle, services: Services) -> Hashable:
    """Return what a run's session is called where the runs of a runner wait for each other.

    The session of a run of another runner is another one, even if it has the same name.
    """
    return run.key if run.services is services else (run.services, run.key)


class CurrentCall:
    """Let the code inside know its call. A context manager; as a generator it would take far longer."""

    __slots__ = ("_covered", "_current", "_token")

    def __init__(self, run: Lifecycle, scope: CancelScope, piece: Piece) -> None:
        self._current = Current(run, scope, piece)

    def __enter__(self) -> None:
        self._token = _current.set(self._current)
        self._covered = self._current.scope.cover()

    def __exit__(self, *_: object) -> None:
        self._current.scope.uncover(self._covered)
        _current.reset(self._token)
