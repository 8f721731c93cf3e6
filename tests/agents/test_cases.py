"""Each behaviour of agents that the page lists is a test of ours, or says why it is none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/agents/CASES.md"))
LISTED = [
    "A22",
    "A23",
    "A39",
    *["A89"] * 5,
    *["A90", "A91"],
    *["A92"] * 3,
    "A94",
    "A102",
    *["A103"] * 4,
    *["A104"] * 4,
    *["A108"] * 4,
]


def test_the_behaviours_are_numbered_without_a_gap() -> None:
    names = [row["name"] for row in rows(PAGE).values()]
    assert names == [*LISTED, *(f"G{number}" for number in range(1, 6))]


def test_each_behaviour_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_behaviour_names_exists() -> None:
    assert missing(PAGE) == []
