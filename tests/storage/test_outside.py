"""The contract is of use to those who write a log elsewhere: it can be run there, and it finds faults."""

import sys
from pathlib import Path

import pytest

import broken_logs
from tree import ROOT, Finished, environment, run

pytestmark = pytest.mark.slow

# What the documentation shows: a project of somebody else.
PROJECT = """
import pytest

from intermission_storage import EventLog, MemoryEventLog
from intermission_storage.testing.contract import EventLogContract, Harness


class MemoryHarness(Harness):
    def __init__(self) -> None:
        self.memory = MemoryEventLog()

    def open(self) -> EventLog:
        return MemoryEventLog(share=self.memory)


class TestMemoryEventLog(EventLogContract):
    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness()


class TestNothing(EventLogContract):
    pass
"""

BROKEN = """
import pytest

from intermission_storage.testing import background

background.PATIENCE = 1.0  # what hangs is to hang for a short time

from broken_logs import FAULTS
from intermission_storage.testing.contract import EventLogContract, Harness


class BrokenHarness(Harness):
    def __init__(self, log) -> None:
        self.log, self.first = log, log()

    def open(self):
        return self.log(share=self.first)


def suite(log):
    class Suite(EventLogContract):
        @pytest.fixture
        def harness(self):
            return BrokenHarness(log)

    return Suite


globals().update({f"Test{log.__name__}": suite(log) for log, _ in FAULTS})
"""


def check(directory: Path, project: str, *options: str) -> Finished:
    """Run pytest in a project of one test module, which knows nothing of this repository's settings."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_store.py").write_text(project)
    env = environment()
    env["PYTHONPATH"] += f":{ROOT / 'tests/support'}"
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-q", *options)
    return run(*command, cwd=directory, env=env)


@pytest.mark.parametrize("mode", ["importlib", "prepend"])
def test_an_author_elsewhere_runs_the_contract(tmp_path: Path, mode: str) -> None:
    finished = check(tmp_path, PROJECT, f"--import-mode={mode}", "-W", "error", "-k", "Memory")
    finished.check()
    assert " passed" in finished.output


def test_who_forgets_the_harness_is_told_what_is_missing(tmp_path: Path) -> None:
    finished = check(tmp_path, PROJECT, "-k", "Nothing and numbered_from_one")
    assert finished.code == 1
    assert "defines the fixture `harness`" in finished.output


def test_what_a_failing_test_compared_is_shown(tmp_path: Path) -> None:
    finished = check(tmp_path, BROKEN, "-k", "_LeavesIndexEntries and nothing_is_left")
    assert "first extra item: (('a', 'b'), None, 's')" in finished.output


def test_each_planted_fault_is_found_by_the_test_that_must_find_it(tmp_path: Path) -> None:
    named = [f"test_store.py::Test{log.__name__}::{test}" for log, test in broken_logs.FAULTS]
    finished = check(tmp_path, BROKEN, *named)
    failed = {line.split()[1].split("[")[0] for line in finished.output.splitlines() if "FAILED " in line}
    assert failed == set(named)
