"""Each module imports only from the layers below it, as the contracts in pyproject.toml draw them."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources import parse
from tree import PACKAGES, ROOT, Finished, copy_tree, environment, module_name, modules, read, run

# Only the edges may import the façade: it imports everything, so a part of it that did would be a cycle.
MAY_IMPORT_THE_FACADE = ("intermission.__main__", "intermission.cli")


def lint(root: Path) -> Finished:
    """Check the contracts of the tree at `root`."""
    return run("lint-imports", "--no-cache", "--no-logo", cwd=root, env=environment(root))


def settings() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(read(Path("pyproject.toml")))["tool"]["importlinter"]
    return table


def layers() -> list[str]:
    """Return the modules that the contract of layers names, with all that is below each."""
    (contract,) = (contract for contract in settings()["contracts"] if contract["type"] == "layers")
    return [name.strip() for row in contract["layers"] for name in row.replace("|", ":").split(":")]


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_contracts_are_kept() -> None:
    lint(ROOT).check()


def test_no_contract_makes_an_exception() -> None:
    assert settings().get("exclude_type_checking_imports", False) is False
    for contract in settings()["contracts"]:
        assert contract.keys() <= {
            *("name", "type", "layers", "exhaustive", "source_modules", "forbidden_modules")
        }


def test_every_module_belongs_to_a_layer() -> None:
    known = layers()
    names = {module_name(path) for path in modules()} - {"intermission"}
    homeless = {name for name in names if not any(f"{name}.".startswith(f"{layer}.") for layer in known)}
    assert homeless == set()


def test_every_layer_exists() -> None:
    # An optional layer, in parentheses, could be misspelt without anybody noticing.
    assert set(layers()) - {module_name(path) for path in modules()} == set()


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_hides_no_import_from_running_code(path: Path) -> None:
    names = {node.id for node in ast.walk(parse(path)) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(parse(path)) if isinstance(node, ast.Attribute)}
    assert "TYPE_CHECKING" not in names


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_does_not_import_the_facade_of_its_own_package(path: Path) -> None:
    name = module_name(path)
    package = name.partition(".")[0]
    if not name.startswith(MAY_IMPORT_THE_FACADE):
        assert package in PACKAGES
        assert package not in imports(parse(path))


@pytest.mark.parametrize(
    "planted",
    [
        "import intermission.sessions",
        "from intermission.sessions import anything",
        "def late():\n    import intermission.sessions",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import intermission.sessions",
    ],
)
def test_an_import_from_a_higher_layer_breaks_the_contract(planted: str, tmp_path: Path) -> None:
    root = copy_tree(tmp_path / "tree")
    with (root / "actors/intermission/kernel/clock.py").open("a") as module:
        module.write(f"\n{planted}\n")
    finished = lint(root)
    assert finished.code == 1
    assert "intermission.kernel.clock -> intermission.sessions (l." in finished.output
