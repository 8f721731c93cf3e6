"""Code that calls a runner's close while that close waits for it: neither must wait for the other."""

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from intermission.runs.current import waiter
from intermission.runs.services import Services

__all__ = ["awaited_by_close", "awaited_here", "sessions_held_here"]

_awaited: ContextVar[tuple[Services, object] | None] = ContextVar("intermission_awaited", default=None)


@contextmanager
def awaited_by_close(services: Services, what: object) -> Generator[None]:
    """Run code of a user's that the runner's close waits for, besides that of runs.

    Args:
        services: Of the runner.
        what: What it waits for.
    """
    token = _awaited.set((services, what))
    try:
        yield
    finally:
        _awaited.reset(token)


def awaited_here(services: Services) -> object | None:
    """Return what the runner's close would wait for that this code belongs to; `None` if it is nothing."""
    found = _awaited.get()
    if found is not None and found[0] is services:
        return found[1]
    run = waiter()
    return run if run is not None and sessions_held_here(services) else None


def sessions_held_here(services: Services) -> frozenset[Hashable]:
    """Return the sessions of a runner whose runs cannot end before this code returns.

    It may be that of a run of another runner, such as an agent that is a tool, which they wait for.
    """
    run = waiter()
    if run is None:
        return frozenset()
    found, todo = set[tuple[Services, Hashable]](), [(run.services, cast(Hashable, run.key))]
    while todo:
        place = todo.pop()
        if place in found:
            continue
        found.add(place)
        there, session = place
        for one in there.waits.waiters(session):
            named: Any = one
            # That of another runner is named with it; see `place_of`.
            elsewhere = isinstance(named, tuple) and isinstance(named[0], Services)
            todo.append(cast("tuple[Services, Hashable]", one) if elsewhere else (there, one))
    return frozenset(session for there, session in found if there is services)
