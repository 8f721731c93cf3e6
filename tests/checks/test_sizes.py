"""Modules and functions are of a size that can be read at one sitting."""

import ast
from pathlib import Path

import pytest

from sources import functions, parse
from tree import files, read

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60


def long_functions(tree: ast.AST, limit: int = LONGEST_FUNCTION) -> list[str]:
    """Return the functions that are too long, their docstrings included and their decorators not."""
    sizes = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions(tree)}
    return [f"{name}: {lines} lines" for name, lines in sizes.items() if lines > limit]


@pytest.mark.parametrize("path", files(suffix=".py"), ids=str)
def test_a_module_and_its_functions_are_short(path: Path) -> None:
    assert len(read(path).splitlines()) <= LONGEST_MODULE
    assert long_functions(parse(path)) == []


def test_a_long_function_is_found_wherever_it_is_defined() -> None:
    source = "class K:\n    async def f(self):\n        def g():\n            return 1\n        return g\n"
    assert long_functions(ast.parse(source), 3) == ["f: 4 lines"]
    assert long_functions(ast.parse(source), 1) == ["f: 4 lines", "g: 2 lines"]
