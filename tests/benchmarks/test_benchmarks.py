"""The benchmarks run. Whether what they measure is good, somebody must see who has a quiet machine."""

import sys

import pytest

from tree import run
from waiting import WAITS

SCRIPT = "tests/benchmarks/log.py"
RUNTIME = "tests/benchmarks/runtime.py"
STARTUP = "tests/benchmarks/startup.py"
BLOCKING = "tests/benchmarks/blocking.py"
CANCEL = "tests/benchmarks/cancel.py"
RECOVERY = "tests/benchmarks/recovery.py"
STUBBORN = "tests/benchmarks/stubborn.py"


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


@pytest.mark.long
def test_the_benchmark_of_the_runtime_shows_a_table_of_what_it_measured() -> None:
    finished = run(sys.executable, RUNTIME, "--quick", "whole")
    finished.check()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    table = [row for row in rows if row]
    assert [row[:2] for row in table[2:]] == [
        ["1 ms", "1"],
        ["1 ms", "10"],
        ["itself", "1"],
        ["itself", "10"],
    ]
    flushes = table[0].index("flushes a run (<= 8 of 1, 0.25 of 100)")
    assert table[2][flushes] == table[4][flushes] == "8.000"


def test_a_part_of_the_runtimes_benchmark_that_does_not_exist_is_refused() -> None:
    finished = run(sys.executable, RUNTIME, "--quick", "whole", "speed")
    assert finished.code == 2
    assert "there is no part speed: there are whole, busy, session, resident," in finished.output


@pytest.mark.slow
def test_the_benchmark_of_the_start_shows_ours_beside_an_empty_program() -> None:
    finished = run(sys.executable, STARTUP, "intermission", "--rounds", "1")
    finished.check()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    assert [row[0] for row in table[2:]] == ["nothing", "intermission"]
    empty, ours = ([int(figure) for figure in row[1:]] for row in table[2:])
    assert all(least < figure for least, figure in zip(empty, ours, strict=True))


def test_a_system_that_the_benchmark_of_the_start_does_not_know_is_refused() -> None:
    finished = run(sys.executable, STARTUP, "fastest")
    assert finished.code == 2
    assert "there is no system fastest: there are nothing, intermission," in finished.output


@pytest.mark.slow
def test_the_benchmark_of_waits_shows_each_of_them_and_what_they_cost() -> None:
    finished = run(sys.executable, BLOCKING, "--quick")
    finished.check()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    table = [row for row in rows if row]
    assert [row[0] for row in table[2 : 2 + len(WAITS)]] == [wait.name for wait in WAITS]
    assert table[-1][0] == "check() of a scope"


@pytest.mark.long
def test_the_benchmark_of_cancels_shows_a_row_for_each_phase_and_what_a_storm_leaves() -> None:
    finished = run(sys.executable, CANCEL, "--quick")
    finished.check()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    table = [row for row in rows if row]
    phases = ["headers", "first token", "stalled", "streaming", "no length", "refusal", "sending"]
    both = [*("connecting", *phases), *("connecting", "handshake", *phases, "proxy")]
    assert [row[0] for row in table[2 : 2 + len(both)]] == both
    assert table[-1][0] == "20"
    assert table[-1][-2:] == ["0", "0"]  # descriptors and threads


@pytest.mark.slow
def test_the_benchmark_of_stubborn_tools_shows_what_they_cost_the_others_of_whom_none_fails() -> None:
    finished = run(sys.executable, STUBBORN, "--quick")
    finished.check()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    header, _, row = [row for row in rows if row]
    assert row[:3] == ["20", "32", "5"]
    assert row[header.index("failed (0)")] == "0"
    assert float(row[header.index("share (>= 0.7)")]) > 0


@pytest.mark.slow
def test_the_benchmark_of_recovery_shows_what_is_found_and_what_a_step_costs() -> None:
    finished = run(sys.executable, RECOVERY, "--quick")
    finished.check()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in finished.output.splitlines()]
    table = [row for row in rows if row]
    assert [table[2][0], table[2][1], table[2][-1]] == ["1,000", "10", "9"]
    assert [row[:2] for row in table[5:]] == [["0", "800"], ["1,603", "200"]]
    assert all(0 < float(row[-1]) < 3 for row in table[5:])
