"""Each patch beside this file breaks the code, and the test that it names notices."""

from difflib import unified_diff
from pathlib import Path

import pytest

from sabotage import Patch
from sources import names_of_tests
from tree import copy_tree

PATCHES = sorted(Path(__file__).parent.glob("*.patch"))

CODE = "storage/intermission_storage/record.py"
IMPORT = "from intermission_storage import Record\n"
PASSING = "def test_it():\n    assert Record().seq == 0\n"


def small_tree(to: Path) -> Path:
    """Make a tree of two files, so that its test runs in no time."""
    (to / "storage/intermission_storage").mkdir(parents=True)
    (to / "storage/intermission_storage/__init__.py").write_text(
        "from intermission_storage.record import Record\n"
    )
    (to / CODE).write_text("class Record:\n    seq = 0\n")
    (to / "tests").mkdir()
    (to / "tests/test_it.py").write_text(IMPORT + PASSING)
    return to


def patch(directory: Path, old: str, new: str, *, test: str = "tests/test_it.py::test_it") -> Patch:
    """Write a patch of one line of the small tree."""
    before = (small_tree(directory / "before") / CODE).read_text()
    lines = before.splitlines(keepends=True), before.replace(old, new).splitlines(keepends=True)
    path = directory / "some.patch"
    header = f"It breaks this and that.\nTest: {test}\n\n"
    path.write_text(header + "".join(unified_diff(*lines, f"a/{CODE}", f"b/{CODE}")))
    return Patch.read(path)


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_patch_names_a_test_and_still_applies(path: Path, tmp_path: Path) -> None:
    patch = Patch.read(path)
    assert patch.test in names_of_tests()
    patch.apply(copy_tree(tmp_path / "tree"))


@pytest.mark.long
@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_the_code_passes_and_the_sabotaged_code_fails(path: Path, tmp_path: Path) -> None:
    Patch.read(path).prove(tmp_path)


@pytest.mark.slow
def test_a_patch_that_breaks_the_code_is_proven(tmp_path: Path) -> None:
    patch(tmp_path, "seq = 0", "seq = 1").prove(tmp_path, small_tree)


@pytest.mark.slow
def test_a_harmless_patch_is_not_proven(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"with some\.patch, pytest ended with 0"):
        patch(tmp_path, "seq = 0", "seq = 0  # still").prove(tmp_path, small_tree)


@pytest.mark.slow
def test_a_patch_after_which_no_test_runs_is_not_proven(tmp_path: Path) -> None:
    bad = patch(tmp_path, "seq = 0", "seq = 1")

    def tree(to: Path) -> Path:
        test = small_tree(to) / "tests/test_it.py"
        test.write_text(IMPORT + "assert Record().seq == 0\n" + PASSING)
        return to

    with pytest.raises(AssertionError, match=r"with some\.patch, pytest ended with [24]"):
        bad.prove(tmp_path, tree)


@pytest.mark.slow
def test_a_test_that_fails_already_proves_nothing(tmp_path: Path) -> None:
    def tree(to: Path) -> Path:
        code = small_tree(to) / CODE
        code.write_text(code.read_text().replace("seq = 0", "seq = 2"))
        return to

    with pytest.raises(AssertionError, match="ended with 1"):
        patch(tmp_path, "seq = 0", "seq = 1").prove(tmp_path, tree)


def test_a_patch_that_no_longer_fits_is_found(tmp_path: Path) -> None:
    stale = patch(tmp_path, "seq = 0", "seq = 1")
    root = small_tree(tmp_path / "tree")
    (root / CODE).write_text("class Record: ...\n")
    with pytest.raises(AssertionError, match="patch does not apply"):
        stale.apply(root)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("It breaks this and that.\n", "has no diff"),
        ("It breaks this and that.\n\n--- a/x\n+++ b/x\n", "has 0 lines `Test"),
        ("Test: tests/test_x.py::test_y\n\n--- a/x\n+++ b/x\n", "does not say what"),
    ],
)
def test_a_patch_without_a_header_is_found(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "some.patch"
    path.write_text(text)
    with pytest.raises(AssertionError, match=problem):
        Patch.read(path)
