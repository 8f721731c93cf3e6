import sys

import pytest

from tree import run


@pytest.mark.long
def test_the_benchmark_of_processes_shows_what_a_call_costs() -> None:
    finished = run(sys.executable, "tests/benchmarks/processes.py", "1")
    finished.check()
    header, *rows = finished.output.splitlines()
    assert header.split() == ["function", "thread", "warm", "cold", "CPU", "ms"]
    assert [row.split()[:2] for row in rows] == [["imports", "nothing"], ["imports", "the"]]
    for row in rows:
        thread, warm, cold, cpu = map(float, row.split()[-4:])
        assert 0 < thread < warm < cold
        assert cpu > 0
