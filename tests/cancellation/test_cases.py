"""Each demand on cancellation that the page lists is met by a test of ours, or the page says why by none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/cancellation/CASES.md"))


def test_none_of_the_demands_is_left_out() -> None:
    demands = [f"C{number}" for number in range(1, 34)]
    scenarios = [f"S{number}" for number in (*range(6, 15), *range(17, 60), 74)]
    assert [row["name"] for row in rows(PAGE).values()] == [*demands, *scenarios]


def test_each_demand_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_demand_names_exists() -> None:
    assert missing(PAGE) == []
