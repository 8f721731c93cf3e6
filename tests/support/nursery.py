"""`Nursery`: lives of programs, each in a process of its own, that end by `kill -9`, many in a second.

A process that has imported all forks one for each life, before it has a thread or an open log.
"""

from pathlib import Path
from typing import Any, Self

from children import Child
from tree import ROOT

__all__ = ["KILLED", "Nursery"]

KILLED = -9
"""How a life ends that was killed."""


class Nursery:
    """Begins lives, one after another, of the programs in `tests/recovery/children/nursery.py`."""

    def __init__(self) -> None:
        self._child = Child(ROOT / "tests/recovery/children/nursery.py")

    def live(self, program: str, folder: Path, **arguments: Any) -> int:
        """Let a program live in a folder to its end, and return its exit code, `KILLED` if it was killed.

        Raises:
            AssertionError: It raised an error, which is shown.
        """
        code: int = self._child.ask([program, str(folder), arguments])
        assert code in {0, KILLED}, f"{program} ended with {code}:\n{self._child.errors()}"
        return code

    def close(self) -> None:
        """End it."""
        self._child.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
