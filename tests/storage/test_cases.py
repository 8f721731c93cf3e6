"""Each of the 44 cases of the checkpointer contract is a test of ours, or says why it is none."""

import re
from pathlib import Path

from documents import Page
from sources import names_of_tests

PAGE = Page.read(Path("tests/storage/CASES.md"))
ROW = re.compile(r"^\| (?P<number>\d+) \| (?P<case>[^|]+) \| (?P<ours>[^|]+) \|$")
REASON = re.compile(r"not ours, because (?P<why>\w.*)")


def rows(page: Page) -> dict[int, re.Match[str]]:
    """Return the rows of the table by the numbers of their lines."""
    return {line: match for line, text in page.prose if (match := ROW.match(text))}


def unproven(page: Page) -> list[str]:
    """Return the cases that name no test and give no reason."""
    proven = {line for line, _ in page.references}
    return [
        row["number"]
        for line, row in rows(page).items()
        if (line in proven)
        == bool((reason := REASON.fullmatch(row["ours"])) and len(reason["why"].split()) > 3)
    ]


def test_the_cases_are_numbered_from_1_to_44() -> None:
    assert [int(row["number"]) for row in rows(PAGE).values()] == list(range(1, 45))


def test_each_case_names_a_test_or_says_why_there_is_none() -> None:
    assert unproven(PAGE) == []


def test_each_test_that_a_case_names_exists() -> None:
    assert [test for _, test in PAGE.references if "::" in test and test not in names_of_tests()] == []


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
