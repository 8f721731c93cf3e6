"""Patches that break a promise of the code, each with the test that must notice."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tree import Finished, copy_tree, environment, run

__all__ = ["Patch"]

_DIFF = re.compile(r"^(?:diff --git |--- )", re.MULTILINE)
_TEST = re.compile(r"^Test: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Patch:
    """A unified diff under a header: what it breaks, and a line `Test: tests/path/test_x.py::test_y`."""

    path: Path
    breaks: str
    test: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a patch.

        Raises:
            AssertionError: The header is not complete, or there is no diff.
        """
        text = path.read_text(encoding="utf-8")
        diff = _DIFF.search(text)
        assert diff, f"{path.name} has no diff"
        header = text[: diff.start()]
        tests = _TEST.findall(header)
        assert len(tests) == 1, f"the header of {path.name} has {len(tests)} lines `Test: …`, not one"
        breaks = _TEST.sub("", header).strip()
        assert len(breaks.split()) >= 5, f"the header of {path.name} does not say what the patch breaks"
        return cls(path, breaks, tests[0])

    def apply(self, root: Path) -> None:
        """Change the tree at `root`, which is a copy, or raise an AssertionError if the diff does not fit."""
        run("git", "apply", str(self.path), cwd=root, env=_outside_git(root)).check()

    def prove(self, directory: Path, copy: Callable[[Path], Path] = copy_tree) -> None:
        """Check, in a copy of the tree, that the test passes without the patch and fails with it.

        Raises:
            AssertionError: It does not.
        """
        root = copy(directory / "tree")
        self._run_test(root).check()
        self.apply(root)
        broken = self._run_test(root)
        # 1: tests ran and some failed. An error in collecting them, which proves nothing, ends with 2.
        assert broken.code == 1, f"with {self.path.name}, pytest ended with {broken.code}:\n{broken.output}"
        assert self._is_to_blame(broken.output), f"{self.test} is not among the failures:\n{broken.output}"

    def _run_test(self, root: Path) -> Finished:
        options = [
            "-p",
            "no:cacheprovider",
            "--color=no",
            "-rfE",
            "--basetemp",
            str(root.parent / "basetemp"),
        ]
        return run(sys.executable, "-m", "pytest", *options, self.test, cwd=root, env=environment(root))

    def _is_to_blame(self, output: str) -> bool:
        name = re.escape(self.test)
        function = re.escape(self.test.rpartition("::")[2])
        # What a test leaves behind is reported at its end; an error in its preparation proves nothing.
        return bool(
            re.search(rf"^FAILED {name}(?:\[| |$)", output, re.MULTILINE)
            or re.search(rf"^_+ ERROR at teardown of \S*{function}(?:\[.*\])? _+$", output, re.MULTILINE)
        )


def _outside_git(root: Path) -> dict[str, str]:
    # Within a repository `git apply` would skip files outside its own directory, without an error.
    return environment(root) | {"GIT_CEILING_DIRECTORIES": str(root.parent)}
