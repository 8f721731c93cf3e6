"""The checker of the documentation finds what is wrong, shown on small planted pages."""

from collections.abc import Collection
from textwrap import dedent

import pytest

import documents
from documents import Page

PROOF = "tests/test_x.py::test_y"


def found(text: str, *, tests: Collection[str] = (PROOF,), proves: bool = False) -> list[str]:
    return documents.problems(Page("page.md", dedent(text)), tests, proves=proves)


@pytest.mark.parametrize("info", ["python title='x'", "py", "pycon", "Python", "python3", "python {.skip}"])
def test_a_python_block_that_would_not_run_is_a_problem(info: str) -> None:
    problem = f"page.md:3: write the block's language as `python`, not as `{info}`"
    assert found(f"# Page\n\n```{info}\n1 / 0\n```\n") == [problem]


@pytest.mark.parametrize("info", ["", "sh", "doctest"])
def test_a_block_in_no_known_language_is_a_problem(info: str) -> None:
    (problem,) = found(f"```{info}\nx\n```\n")
    assert problem.startswith("page.md:1: a block's language is python or one of ")


def test_a_block_in_a_known_language_is_none() -> None:
    assert found("```console\n$ x\n```\n\n  ~~~~toml\n  ```\n  x = 1\n  ~~~~\n") == []


def test_a_block_that_nobody_closes_reaches_to_the_end() -> None:
    page = Page("page.md", "```text\n## no heading\n")
    assert page.sections == []
    assert page.prose == []


@pytest.mark.parametrize(
    "text",
    [
        "see `tests/test_x.py::test_z`",
        "see tests/test_x.py::test_z",
        "<!-- test: tests/test_x.py::test_y, tests/test_x.py::test_z -->",
        "```console\n$ pytest tests/test_x.py::test_z\n```",
    ],
)
def test_a_test_that_does_not_exist_is_a_problem(text: str) -> None:
    (problem,) = found(text)
    assert problem.endswith("there is no test tests/test_x.py::test_z")


def test_a_test_is_named_without_its_parameters() -> None:
    assert found(f"`{PROOF}[a-1]`") == [f"page.md:1: there is no test {PROOF}[a-1]"]


def test_a_comment_that_names_no_test_is_a_problem() -> None:
    assert found("<!-- test: soon -->") == ["page.md:1: there is no test soon"]


def test_a_guarantee_without_a_test_is_a_problem() -> None:
    text = f"""\
        # The guarantees

        1. It ends. `{PROOF}`
        2. It starts,
           sometimes.

        ## Nested

        3. It goes on. <!-- test: {PROOF} -->

        # After

        1. No guarantee.
        """
    assert found(text) == ["page.md:4: this guarantee names no test: 2. It starts,"]


def test_a_test_in_the_text_of_a_later_line_proves_a_guarantee() -> None:
    assert found(f"# Guarantees\n\n1. It ends,\n   always.\n\n   `{PROOF}`\n2. So. `{PROOF}`\n") == []


def test_a_test_in_a_code_block_proves_no_guarantee() -> None:
    assert len(found(f"# Guarantees\n\n1. It ends:\n\n   ```text\n   `{PROOF}`\n   ```\n")) == 1


def test_guarantees_without_numbers_are_a_problem() -> None:
    assert found("# Guarantees\n\n- It ends.\n") == ["page.md:1: a section about guarantees numbers them"]


def test_a_section_that_proves_nothing_is_a_problem() -> None:
    text = f"""\
        # Page

        ## Proven

        ### By a test below
        `{PROOF}`

        ## Run

        ```python
        # ## no heading
        ```

        ## Claimed

        ```text
        python
        ```
        """
    assert found(text, proves=True) == ["page.md:14: the section 'Claimed' names no test and runs no code"]
    assert found(text) == []


def test_a_page_without_sections_proves_something_as_a_whole() -> None:
    assert found("# Page\n\nText.\n", proves=True) == [
        "page.md:1: the section 'page.md' names no test and runs no code"
    ]
    assert found(f"# Page\n\n`{PROOF}`\n", proves=True) == []


def test_a_narrative_page_proves_nothing_and_says_why() -> None:
    text = "# Page\n\n## Why\n\nText.\n"
    reason = "<!-- narrative: tells what came before -->\n"
    assert found(reason + text, proves=True) == []
    assert found("---\ntitle: x\n---\n" + reason + text, proves=True) == []
    assert found("<!-- narrative: x -->\n" + text, proves=True) == [
        "page.md:1: say why the page is narrative"
    ]
    assert len(found(text + reason, proves=True)) == 1


def test_an_included_file_stands_in_the_page() -> None:
    page = Page("page.md", 'x\n  --8<-- "tests/checks/test_documents.py"\ny\n')
    assert page.text.startswith('x\n  """The checker of the documentation')
    assert page.text.endswith("\ny\n")
