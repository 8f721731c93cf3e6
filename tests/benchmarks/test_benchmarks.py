"""The benchmarks run. Whether what they measure is good, somebody must see who has a quiet machine."""

import sys

import pytest

from tree import run

SCRIPT = "tests/benchmarks/log.py"


@pytest.mark.slow
def test_the_benchmark_of_the_log_shows_a_table_of_what_it_measured() -> None:
    finished = run(sys.executable, SCRIPT, "--quick", "verify")
    finished.check()
    row = [cell.strip() for cell in finished.output.splitlines()[-3].split("|")]
    assert row[1] == "10,000"
    assert row[3].endswith(" s")


def test_a_part_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    finished = run(sys.executable, SCRIPT, "--quick", "verify", "speed")
    assert finished.code == 2
    assert "there is no part speed: there are appends, busy," in finished.output
