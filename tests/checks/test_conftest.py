"""`tests/conftest.py` does what it promises to every test, shown in a copy of the tree with planted tests."""

import sys
from pathlib import Path

import pytest

from tree import Finished, copy_tree, environment, run

pytestmark = pytest.mark.slow

PLANTED = """
import os, subprocess, sys, tempfile
from pathlib import Path

import pytest
import scale
from hypothesis import settings

ROOT = Path(__file__).parents[1]

def test_clean():
    assert Path(tempfile.gettempdir()) == Path(os.environ["TMPDIR"])
    (ROOT / "__pycache__").mkdir(exist_ok=True)

def test_temporary_file():
    os.close(tempfile.mkstemp(prefix="planted")[0])

def test_temporary_file_of_a_child():
    code = "import tempfile; tempfile.mkdtemp(prefix='planted')"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_file_in_the_root():
    (ROOT / "planted.txt").touch()

def test_file_among_the_tests():
    (ROOT / "tests/storage/planted.txt").touch()

def test_scale():
    assert (scale.rounds(1, 2), settings.default.max_examples) == (1, 50)

@pytest.mark.long
def test_long():
    assert (scale.rounds(1, 2), settings.default.max_examples) == (2, 1000)

@pytest.mark.real_model
def test_real_model():
    pass
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with planted tests."""
    root = copy_tree(tmp_path_factory.mktemp("planted") / "tree")
    (root / "tests/test_planted.py").write_text(PLANTED)
    conftest = root / "tests/conftest.py"
    # What is planted stays, so there is nothing to wait for.
    conftest.write_text(
        conftest.read_text().replace("assert_nothing_left(dir", "assert_nothing_left(timeout=0.1, dir")
    )
    return root


def run_planted(root: Path, *options: str) -> Finished:
    return run(
        *(sys.executable, "-m", "pytest", "--color=no", "-p", "no:cacheprovider", "-rfE"),
        *("-o", "addopts=--import-mode=importlib", "--basetemp", str(root.parent / "basetemp")),
        *("tests/test_planted.py", *options),
        cwd=root,
        env=environment(root),
    )


def test_a_test_that_leaves_a_file_behind_fails(planted: Path) -> None:
    output = run_planted(planted).output
    left = [line.split()[1] for line in output.splitlines() if line.startswith("ERROR tests")]
    leaky = ["temporary_file", "temporary_file_of_a_child", "file_in_the_root", "file_among_the_tests"]
    assert left == [f"tests/test_planted.py::test_{name}" for name in leaky]
    assert "6 passed, 2 deselected, 4 errors" in output


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (["-k", "long or real_model"], "8 deselected"),
        (["-k", "long or real_model", "--long"], "1 passed, 7 deselected"),
        (["-k", "long or real_model", "--real-model"], "1 passed, 7 deselected"),
        (["-k", "long or real_model", "--real-model", "--long"], "2 passed, 6 deselected"),
    ],
)
def test_marked_tests_are_deselected_unless_they_are_asked_for(
    planted: Path, options: list[str], outcome: str
) -> None:
    assert f"= {outcome} in " in run_planted(planted, *options).output
