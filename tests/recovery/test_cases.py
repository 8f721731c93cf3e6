"""Each behaviour of recovery that the page lists is a test of ours, or says why it is none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/recovery/CASES.md"))


def test_the_behaviours_are_numbered_without_a_gap() -> None:
    names = [row["name"] for row in rows(PAGE).values()]
    assert names == [*map(str, range(64, 71)), *(f"R{number}" for number in range(1, 11))]


def test_each_behaviour_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_behaviour_names_exists() -> None:
    assert missing(PAGE) == []
