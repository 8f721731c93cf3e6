"""What a program waits for before it can do something: what is imported, told without a clock."""

import sys

import pytest

from startup_programs import PROGRAMS
from tree import run

# Large modules, and ours that lead to them: a program needs none before it makes a tool or a model over HTTP.
LARGE = {
    *("argparse", "certifi", "charset_normalizer", "concurrent.futures.process", "concurrent.futures.thread"),
    *("decimal", "email", "html", "http", "idna", "importlib.metadata", "multiprocessing", "pydantic"),
    *("pydantic_core", "requests", "sqlite3", "unittest", "urllib.request", "urllib3", "xml"),
    *("intermission.cli", "intermission.models.http", "intermission.testing", "intermission.tools.arguments"),
}


def large_modules_of(program: str) -> set[str]:
    """Return which of the large modules a program has imported at its end, in an interpreter of its own."""
    # What the interpreter of this machine imports for itself is left out.
    finished = run(
        *(sys.executable, "-c"),
        f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*(set(sys.modules) - before))",
    )
    finished.check()
    return LARGE & set(finished.output.splitlines()[-1].split())


@pytest.mark.parametrize("which", [0, 1], ids=["import", "first event"])
def test_no_large_module_is_imported_before_it_is_needed(which: int) -> None:
    assert large_modules_of(PROGRAMS["intermission"][which]) == set()


def test_a_large_module_that_is_imported_is_told() -> None:
    assert large_modules_of("import intermission.testing") >= {"intermission.testing", "http"}
