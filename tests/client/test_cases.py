"""Each scenario of a client is met by a test of ours, or the page says why by none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/client/CASES.md"))


def test_none_of_the_scenarios_is_left_out() -> None:
    scenarios = [f"S{number}" for number in (*range(1, 26), *range(48, 66))]
    threads = [f"T{number}" for number in range(1, 16)]
    assert [row["name"] for row in rows(PAGE).values()] == [*scenarios, *threads]


def test_each_scenario_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_scenario_names_exists() -> None:
    assert missing(PAGE) == []
