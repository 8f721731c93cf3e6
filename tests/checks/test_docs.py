"""The documentation is true: its code runs, and each claim names a test that exists."""

import io
import sys
from pathlib import Path
from types import ModuleType

import pytest
from sybil import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.abstract import AbstractCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from documents import Page, problems
from sources import names_of_tests
from tree import ROOT

DOCS = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
OTHERS = [Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md")]

PYTHON = AbstractCodeBlockParser(
    [FencedCodeBlockLexer(r".+", mapping={"language": "arguments", "source": "source"})],
    "python",
    PythonEvaluator(),
)


def run(page: Page, scripts: Path | None = None) -> None:
    """Run the Python blocks of a page in order, in one namespace.

    Each is written to `scripts`, too, and is the main script meanwhile: a process that looks for a function
    of it loads it from there.
    """
    document = Document(page.text, str(ROOT / page.name))
    document.namespace["__name__"] = "__main__"
    for region in PYTHON(document):
        document.add(region)
    examples = list(document.examples())
    # Two readers of Markdown must agree, or a block could be left out without a word.
    assert [example.line for example in examples] == [
        block.line for block in page.blocks if block.language == "python"
    ]
    for example in examples:
        if scripts is not None:
            script = scripts / f"line{example.line}.py"
            script.write_text(example.parsed)
            sys.modules["__main__"].__file__ = document.namespace["__file__"] = str(script)
        example.evaluate()


@pytest.mark.parametrize("path", [*DOCS, *OTHERS], ids=str)
def test_the_code_of_a_page_runs(
    path: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody types
    run(Page.read(path), tmp_path_factory.mktemp("scripts"))


@pytest.mark.parametrize("path", DOCS, ids=str)
def test_each_section_of_a_page_is_proven(path: Path) -> None:
    assert problems(Page.read(path), names_of_tests(), proves=True) == []


@pytest.mark.parametrize("path", OTHERS, ids=str)
def test_a_page_beside_the_documentation_names_only_tests_that_exist(path: Path) -> None:
    assert problems(Page.read(path), names_of_tests(), proves=False) == []


def test_code_that_fails_fails_its_page() -> None:
    text = "```python\nx = 1\n```\n\n- item\n\n  ```python\n  assert x == 2\n  ```\n"
    with pytest.raises(AssertionError):
        run(Page("page.md", text))
    run(Page("page.md", text.replace("== 2", "== 1")))
