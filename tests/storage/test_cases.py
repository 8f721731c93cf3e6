"""Each of the 44 cases of the checkpointer contract is a test of ours, or says why it is none."""

from pathlib import Path

from cases import missing, rows, unproven
from documents import Page

PAGE = Page.read(Path("tests/storage/CASES.md"))


def test_the_cases_are_numbered_from_1_to_44() -> None:
    assert [int(row["name"]) for row in rows(PAGE).values()] == list(range(1, 45))


def test_each_case_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_case_names_exists() -> None:
    assert missing(PAGE) == []


def test_a_case_without_a_test_or_a_reason_is_found() -> None:
    cases = [
        "",
        "soon",
        "`test_x`",
        "not ours, because",
        "not ours, because no",
        "see tests/test_x.py::test_y",
    ]
    table = "\n".join(f"| {number} | It works | {ours} |" for number, ours in enumerate(cases, 1))
    assert unproven(Page("CASES.md", table)) == ["2", "3", "4", "5", "6"]
    assert unproven(Page("CASES.md", "| 1 | It works | `tests/test_x.py::test_y` |")) == []
    assert unproven(Page("CASES.md", "| 1 | It works | not ours, because of one good reason |")) == []


def test_a_test_that_does_not_exist_is_found() -> None:
    known = "tests/storage/test_cases.py::test_a_test_that_does_not_exist_is_found"
    table = f"| R1 | It works | `{known}`, `tests/test_x.py::test_y` |"
    assert missing(Page("CASES.md", table)) == ["tests/test_x.py::test_y"]
