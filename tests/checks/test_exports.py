"""`__all__` is true: each public name is in it, and each name in it is there."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sources import parse
from tree import PACKAGES, module_name, modules

# `python -m` runs it and nobody imports it.
MODULES = [path for path in modules() if path.name != "__main__.py"]

# What each module makes for itself, by custom under a name without an underscore.
OWN = {"TypeVar", "ParamSpec", "logging.getLogger"}


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the public names that a module defines at its top level; imported ones are not defined there."""
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Assign(value=ast.Call(func=function)) if ast.unparse(function) in OWN:
                names = []
            case ast.Assign():
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def exported(tree: ast.Module) -> list[str]:
    """Return the literal `__all__` of a module; one that is nothing but a docstring needs none."""
    if len(tree.body) == 1 and ast.get_docstring(tree) is not None:
        return []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return [str(name) for name in ast.literal_eval(value)]
            case _:
                pass
    raise AssertionError("the module has no literal __all__")


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_public_name_of_a_module_is_exported(path: Path) -> None:
    tree = parse(path)
    assert set(defined(tree)) - set(exported(tree)) == set()


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_exported_name_of_a_module_is_there(path: Path) -> None:
    module: ModuleType = importlib.import_module(module_name(path))
    names = exported(parse(path))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_of_a_facade_has_a_docstring(package: str) -> None:
    facade = importlib.import_module(package)
    assert facade.__all__
    undocumented = [
        name
        for name in facade.__all__
        if callable(getattr(facade, name)) and not getattr(facade, name).__doc__
    ]
    assert undocumented == []


def test_a_public_name_is_told_from_the_others() -> None:
    source = """
import os
from x import y
A = _B = 1
C: int = 2
T = TypeVar("T")
def f(): ...
class K: ...
def _g(): ...
"""
    assert list(defined(ast.parse(source))) == ["A", "C", "f", "K"]


def test_a_module_without_a_list_of_its_names_is_found() -> None:
    assert exported(ast.parse("'Only words.'")) == []
    with pytest.raises(AssertionError, match="no literal __all__"):
        exported(ast.parse("'Words.'\nx = 1"))
