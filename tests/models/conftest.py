"""What tests of models have: see `surroundings`, and a clock that moves by each sleep."""

import pytest

from intermission.kernel.scope import CancelScope
from intermission.testing import ManualClock
from surroundings import bare_environment, clock, scope

__all__ = ["bare_environment", "clock", "scope", "slept"]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[float]:
    """Move the clock in place of each sleep, and say for how long."""
    seconds: list[float] = []

    def sleep(scope: CancelScope, length: float) -> None:
        seconds.append(length)
        clock.advance(length)

    monkeypatch.setattr(CancelScope, "sleep", sleep)
    return seconds
