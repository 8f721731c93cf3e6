"""Python sources as syntax trees: definitions, comments, and the names of tests."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tree import ROOT, read

__all__ = ["Function", "comments", "functions", "names_of_tests", "parse"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse(path: Path) -> ast.Module:
    """Return the tree of the module at a path relative to the root."""
    return ast.parse(read(path), str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method, also nested ones."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module with their line numbers; what stands in strings is none."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@cache
def names_of_tests() -> frozenset[str]:
    """Return the name of every test, without parameters: `tests/path/test_x.py::test_y`."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        relative = path.relative_to(ROOT)
        found.update(f"{relative}::{name}" for name in _names(parse(relative).body))
    return frozenset(found)


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{node.name}::{name}" for name in _names(node.body))
