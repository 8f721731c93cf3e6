"""The code is formatted and linted by ruff, with the settings in pyproject.toml."""

from tree import run


def test_the_code_is_formatted() -> None:
    run("ruff", "format", "--check", "--diff").check()


def test_the_linter_finds_nothing() -> None:
    run("ruff", "check").check()
