"""Sessions are taken through steps in any order, and after each of them the contract is kept."""

from itertools import product

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType] - hypothesis does not say it
)

from scale import is_long, rounds
from state_machine import Sessions, table
from steps import STEPS

EXAMPLES = rounds(15, 260)
LENGTH = rounds(20, 40)  # steps of an example
ENOUGH = 20  # how often each step comes directly behind each other one, in the long check


def test_whatever_sessions_go_through_the_contract_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """An example that fails is made smaller in the long check alone: that takes minutes."""
    for counter in (Sessions.pairs, Sessions.taken, Sessions.idle):
        counter.clear()
    phases = tuple(Phase) if is_long() else (Phase.generate,)
    run_state_machine_as_test(
        Sessions, settings=settings(max_examples=EXAMPLES, stateful_step_count=LENGTH, phases=phases)
    )
    if is_long():
        with capsys.disabled():
            print(f"\n{table()}")  # noqa: T201  # the counts are what the long check is asked for
        names = [step.__name__ for step in STEPS]
        assert [pair for pair in product(names, names) if Sessions.pairs[pair] < ENOUGH] == []
