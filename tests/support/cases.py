"""A table of cases that others test by: each names a test of ours, or says why there is none."""

import re

from documents import Page
from sources import names_of_tests

__all__ = ["missing", "rows", "unproven"]

ROW = re.compile(r"^\| (?P<name>[A-Z]?\d+) \| (?P<case>[^|]+) \| (?P<ours>[^|]+) \|$")
REASON = re.compile(r"not ours, because (?P<why>\w.*)")


def rows(page: Page) -> dict[int, re.Match[str]]:
    """Return the rows of the table by the numbers of their lines."""
    return {line: match for line, text in page.prose if (match := ROW.match(text))}


def unproven(page: Page) -> list[str]:
    """Return the cases that name no test and give no reason, or do both."""
    proven = {line for line, _ in page.references}
    return [
        row["name"]
        for line, row in rows(page).items()
        if (line in proven)
        == bool((reason := REASON.fullmatch(row["ours"])) and len(reason["why"].split()) > 3)
    ]


def missing(page: Page) -> list[str]:
    """Return the tests that are named and do not exist."""
    return [test for _, test in page.references if "::" in test and test not in names_of_tests()]
