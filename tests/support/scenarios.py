"""The marker `scenario`: which reported failures of other systems our tests stand for, by their ids."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from sources import Function, parse
from tree import ROOT

__all__ = ["FORM", "marked", "scenarios", "table"]

FORM = re.compile(r"[A-Z][1-9]\d?")
"""What an id looks like: the letter of its group, and its number there."""


@cache
def scenarios() -> dict[str, list[str]]:
    """Return the ids that tests are marked with, and the names of these tests, without parameters."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        relative = path.relative_to(ROOT)
        for test, name in marked(parse(relative)):
            found[name].append(f"{relative}::{test}")
    return dict(sorted(found.items(), key=lambda item: (item[0][:1], len(item[0]), item[0])))


def marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the tests of a module with each id that they, their class or the module are marked with."""
    outer = [
        name
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for name in _ids(node.value)
    ]
    yield from _marked(module.body, outer, "")


def table() -> str:
    """Return the ids and their tests as text."""
    lines = [f"{name:4} {test}" for name, tests in scenarios().items() for test in tests]
    return "\n".join(lines) + "\n"


def _marked(body: list[ast.stmt], outer: list[str], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _marked(node.body, outer + _own(node.decorator_list), f"{prefix}{node.name}::")
        elif isinstance(node, Function) and node.name.startswith("test"):
            ids = dict.fromkeys(outer + _own(node.decorator_list))
            yield from ((prefix + node.name, name) for name in ids)


def _own(decorators: list[ast.expr]) -> list[str]:
    return [name for decorator in decorators for name in _ids(decorator)]


def _ids(tree: ast.expr) -> Iterator[str]:
    """Yield the arguments of the marker, wherever in an expression it stands, as in a list or a parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.scenario":
            yield from (str(ast.literal_eval(argument)) for argument in node.args or [ast.Constant("")])
