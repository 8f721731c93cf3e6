"""Each behaviour of tools that the page lists is a test of ours, or says why it is none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/tools/CASES.md"))


def test_none_of_the_behaviours_is_left_out() -> None:
    names = [row["name"] for row in rows(PAGE).values()]
    assert names == ["T19", *(f"T{number}" for number in range(92, 99))]


def test_each_behaviour_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_behaviour_names_exists() -> None:
    assert missing(PAGE) == []
