"""A manual clock, and what runs by it: a timer, workers, and a scope whose children use both."""

from collections.abc import Iterator

import pytest

from intermission.kernel.scope import CancelScope, ScopeHost
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
from intermission.testing import ManualClock
from pools import Make
from scopes import hosted


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def host(clock: ManualClock) -> Iterator[ScopeHost]:
    with hosted(clock) as host:
        yield host


@pytest.fixture
def root(host: ScopeHost) -> CancelScope:
    return CancelScope.child_of(None, host=host)


@pytest.fixture
def timer(clock: ManualClock) -> Iterator[Timer]:
    timer = Timer(clock)
    yield timer
    timer.close()


@pytest.fixture
def make(timer: Timer) -> Iterator[Make]:
    made: list[Workers] = []

    def make(**options: float) -> Workers:
        made.append(Workers(timer=timer, **options))  # type: ignore[arg-type]  # limits are whole numbers
        return made[-1]

    yield make
    for workers in made:
        assert workers.close(30) == 0
