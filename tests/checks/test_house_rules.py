"""Rules of this repository that no tool knows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import Page
from sources import comments
from tree import ROOT, files, read

PYTHON = files(suffix=".py")
EXAMPLES = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.py"))

# A comment that silences a tool. It names what it silences and says why, behind a dash or a second `#`;
# mypy reads only the second.
SILENCER = re.compile(r"#\s*(type: ignore|noqa|pyright:|mypy:|ruff:|fmt:|pragma:)")
EXPLAINED = re.compile(r"# (type: ignore\[[\w-]+\]|noqa: \w+|pyright: ignore\[\w+\])( -|  #) \S+ \S+")

# Home directories and the like. Written so that it does not find itself.
LOCAL_PATH = re.compile(r"(?<![\w.~])/(?:home|root|work|Users)/\w+")
UNFINISHED = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X)\b")

GIVE_UP = {"skip", "xfail", "importorskip"}


def unexplained(text: str) -> list[str]:
    """Return the comments of a module that silence a tool without a reason."""
    return [
        f"line {line}: {comment}"
        for line, comment in comments(text)
        if SILENCER.search(comment) and not EXPLAINED.match(comment)
    ]


def given_up(tree: ast.Module) -> list[str]:
    """Return where a module gives up on tests whatever the circumstances.

    A mark needs a condition, so that it is `skipif`, or `xfail` with one; a call stands under an `if`.
    """
    conditional = {
        id(below) for node in ast.walk(tree) if isinstance(node, ast.If) for below in ast.walk(node)
    }
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node, needs_condition in _giving_up(tree)
        if needs_condition and id(node) not in conditional
    ]


def _giving_up(tree: ast.Module) -> Iterator[tuple[ast.expr, bool]]:
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in GIVE_UP and "pytest" in ast.unparse(node.value):
            call = called.get(id(node))
            if ast.unparse(node.value) == "pytest.mark":
                yield node, node.attr == "skip" or call is None or not call.args
            else:
                yield node, True


@pytest.mark.parametrize("path", PYTHON, ids=str)
def test_whoever_silences_a_tool_says_why(path: Path) -> None:
    assert unexplained(read(path)) == []


@pytest.mark.parametrize("path", [path for path in PYTHON if path.parts[0] == "tests"], ids=str)
def test_no_test_is_given_up_without_a_condition(path: Path) -> None:
    assert given_up(ast.parse(read(path))) == []


@pytest.mark.parametrize("pattern", [LOCAL_PATH, UNFINISHED], ids=["path of a machine", "unfinished"])
def test_no_file_holds_what_belongs_to_one_desk(pattern: re.Pattern[str]) -> None:
    found: list[str] = []
    for path in files():
        text = (ROOT / path).read_bytes().decode(errors="replace")
        found += [f"{path}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    titles = [section.title for section in Page.read(Path("CHANGELOG.md")).sections if section.level == 2]
    assert titles[0] == "Unreleased"


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_an_example_is_run_by_a_test_and_shown_on_a_page(path: Path) -> None:
    tests = [read(test) for test in PYTHON if test.parts[0] == "tests"]
    assert any(path.name in text for text in tests), "no test names it"
    pages = [Page.read(page) for page in files(suffix=".md") if page.parts[0] == "docs"]
    assert any(read(path).strip() in page.text for page in pages), "no page shows it"


@pytest.mark.parametrize(
    "comment",
    [
        "# type: ignore",
        "# type: ignore[arg-type]",
        "# noqa",
        "# noqa: E501",
        "# pyright: ignore",
        "# pyright: ignore[reportPrivateUsage]  # why",
        "# pyright: basic",
        "# mypy: ignore-errors",
        "# fmt: off",
    ],
)
def test_a_silenced_tool_without_a_reason_is_found(comment: str) -> None:
    assert unexplained(f"x = 1  {comment}\n") == [f"line 1: {comment}"]


def test_a_silenced_tool_with_a_reason_and_a_string_are_no_problem() -> None:
    assert unexplained("x = '# noqa'  # noqa: E501  # a long address\n") == []
    assert unexplained("x = 1  # noqa: E501 - a long address\n") == []


@pytest.mark.parametrize(
    "code",
    [
        "pytest.skip('x')",
        "def test_x():\n    pytest.xfail('x')",
        "pytest.importorskip('x')",
        "@pytest.mark.skip\ndef test_x(): ...",
        "@pytest.mark.skip('x')\ndef test_x(): ...",
        "@pytest.mark.xfail\ndef test_x(): ...",
        "@pytest.mark.xfail(reason='x')\ndef test_x(): ...",
    ],
)
def test_a_test_that_is_given_up_is_found(code: str) -> None:
    assert len(given_up(ast.parse(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "if sys.platform == 'win32':\n    pytest.skip('x')",
        "@pytest.mark.skipif(sys.platform == 'win32', reason='x')\ndef test_x(): ...",
        "@pytest.mark.xfail(sys.platform == 'win32', reason='x')\ndef test_x(): ...",
        "other.skip()",
    ],
)
def test_a_test_that_is_given_up_on_a_condition_is_no_problem(code: str) -> None:
    assert given_up(ast.parse(code)) == []


def test_paths_of_a_machine_and_unfinished_places_are_found() -> None:
    assert LOCAL_PATH.search("see " + "/ho" + "me/me/x")
    assert not LOCAL_PATH.search("https://example.org/" + "home/x ~/" + "work/x")
    assert UNFINISHED.search("# TO" + "DO: later")
