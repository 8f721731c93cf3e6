"""Sessions are taken through steps in any order, and after each of them the contract is kept."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from scale import is_long, rounds
from state_machine import STEPS, Sessions, table

EXAMPLES = rounds(12, 500)
LENGTH = 40  # steps of an example
ENOUGH = 20  # how often each step comes directly behind each other one, in the long check


def test_whatever_sessions_go_through_the_contract_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """In the default check, an example that fails is not made smaller: that takes long, and the long one does."""
    Sessions.pairs.clear()
    phases = tuple(Phase) if is_long() else (Phase.generate,)
    run_state_machine_as_test(
        Sessions, settings=settings(max_examples=EXAMPLES, stateful_step_count=LENGTH, phases=phases)
    )
    if is_long():
        with capsys.disabled():
            print(f"\n{table()}")  # noqa: T201  # the counts are what the long check is asked for
        rare = [
            f"{first}, {second}"
            for first in STEPS
            for second in STEPS
            if Sessions.pairs[first, second] < ENOUGH
        ]
        assert rare == []
