"""The comparison runs, and shows of Intermission what is promised. The others must be installed by hand."""

import sys
from pathlib import Path

import pytest

from tree import run
from two_models import CASES

SCRIPT = "tests/comparison/cancel.py"
LONGEST = 3.0  # seconds until control is back, on a busy machine; the blocking tool goes on for longer


def table(output: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()]
    return [row for row in rows if row][2:]


@pytest.mark.long
def test_a_cancel_gives_control_back_closes_the_request_says_what_runs_and_leaves_the_session_usable() -> (
    None
):
    finished = run(sys.executable, SCRIPT, "intermission")
    finished.check()
    rows = table(finished.output)

    assert [row[1] for row in rows] == list(CASES)
    assert max(float(row[3]) for row in rows) < LONGEST
    assert [row[5] for row in rows] == ["0"] * 4
    assert [row[6] for row in rows] == ["runs, `residual()`: look", "has ended", "", ""]
    assert all(row[7].startswith('works; told `{"status": "unknown"') for row in rows[:2])
    assert [row[7] for row in rows[2:]] == ["works"] * 2


def test_a_framework_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path) -> None:
    finished = run(sys.executable, SCRIPT, "langgraph", "--place", str(tmp_path))
    finished.check()

    python = tmp_path / "langgraph" / "bin" / "python"
    assert f"NOT INSTALLED: langgraph. Run this with --install, or {python} -m pip install" in finished.output
    assert table(finished.output) == [["langgraph", *["not installed"] * 7]]


def test_a_framework_that_is_not_compared_is_refused() -> None:
    finished = run(sys.executable, SCRIPT, "fastest")

    assert finished.code == 2
    assert "there is no framework fastest: there are intermission, google-adk," in finished.output
