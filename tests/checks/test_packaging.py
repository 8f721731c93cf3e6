"""The wheel, built by way of the source distribution, holds exactly the two packages."""

import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tree import PACKAGES, files, read, run

pytestmark = pytest.mark.slow

PYTHONS = ["3.11", "3.12", "3.13"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel. Without further options `build` makes it from the source distribution, not from the tree."""
    target = tmp_path_factory.mktemp("dist")
    run("python", "-m", "build", "--no-isolation", "--outdir", str(target)).check()
    (source,) = target.glob("*.tar.gz")
    (wheel,) = target.glob("*.whl")
    assert source.name.removesuffix(".tar.gz") == "-".join(wheel.name.split("-")[:2])
    return wheel


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """What the wheel says of itself."""
    with ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{dist_info(wheel)}/METADATA").decode())


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The project's table in pyproject.toml."""
    table: dict[str, Any] = tomllib.loads(read(Path("pyproject.toml")))["project"]
    return table


def dist_info(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2]) + ".dist-info"


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if not name.startswith(f"{dist_info(wheel)}/")}
    expected = {
        path.relative_to(folder).as_posix()
        for package, folder in PACKAGES.items()
        for path in files()
        if path.is_relative_to(Path(folder, package))
    }
    assert found == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= found


def test_the_wheel_has_the_license_and_the_command(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        assert archive.read(f"{dist_info(wheel)}/licenses/LICENSE").decode() == read(Path("LICENSE"))
        commands = archive.read(f"{dist_info(wheel)}/entry_points.txt").decode().split("\n")
    assert commands[:2] == ["[console_scripts]", "intermission = intermission.cli:main"]


def test_the_metadata_is_that_of_the_project(metadata: Message, project: dict[str, Any]) -> None:
    assert metadata["Name"] == "intermission"
    assert metadata["License-Expression"] == project["license"]
    assert metadata["License-File"] == "LICENSE"
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert len(required) == len(project["dependencies"])


def test_the_readme_is_the_long_description(metadata: Message) -> None:
    assert metadata.get_payload() == read(Path("README.md"))


def test_the_metadata_names_the_pythons_that_are_supported(metadata: Message) -> None:
    assert metadata["Requires-Python"] == f">={PYTHONS[0]}"
    prefix = "Programming Language :: Python :: 3."
    named = [line for line in metadata.get_all("Classifier", []) if line.startswith(prefix)]
    assert named == [f"Programming Language :: Python :: {version}" for version in PYTHONS]
