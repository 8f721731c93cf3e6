"""Python sources as syntax trees: definitions, comments, and the names of tests."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tree import ROOT, module_name, modules, read

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
        found.update(f"{relative}::{name}" for name in _names(parse(relative)))
    return frozenset(found)


def _names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{node.name}::{name}" for name in _methods(node, module))


def _methods(node: ast.ClassDef, module: ast.Module) -> Iterator[str]:
    """Yield the tests of a class, also those that it inherits from classes of ours."""
    for function in node.body:
        if isinstance(function, Function) and function.name.startswith("test"):
            yield function.name
    for base in node.bases:
        found = _class(ast.unparse(base), module)
        if found is not None:
            yield from _methods(*found)


def _class(name: str, module: ast.Module) -> tuple[ast.ClassDef, ast.Module] | None:
    """Return a class that a module defines or imports from a module of ours, and where it is defined."""
    for node in module.body:
        match node:
            case ast.ClassDef() if node.name == name:
                return node, module
            case ast.ImportFrom(module=str(source)) if any(alias.name == name for alias in node.names):
                paths = [path for path in modules() if module_name(path) == source]
                return _class(name, parse(paths[0])) if paths else None
            case _:
                pass
    return None
