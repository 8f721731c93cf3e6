"""`Setting`: what a child must have in common with this process, so that it finds the same functions."""

import os
import sys
from typing import Any, NamedTuple

from intermission.isolation.errors import UnguardedScriptError

__all__ = ["LOADING", "Setting", "main_script", "refuse_while_loading"]

LOADING = "intermission_is_loading"
"""Name of what the child's own main module says while it loads the module of a tool."""


class Setting(NamedTuple):
    """What a child has got from this process when it was started; it serves on as long as that is the same.

    Attributes:
        directory: The working directory.
        environment: The environment variables.
        path: `sys.path`.
        arguments: `sys.argv`.
        main: How the main module is loaded; see `main_script`.
    """

    directory: str
    environment: dict[str, str]
    path: list[str]
    arguments: list[str]
    main: tuple[str, str]

    @classmethod
    def here(cls) -> "Setting":
        """Return what a child would get now."""
        try:
            directory = os.getcwd()
        except OSError:  # it has been deleted
            directory = ""
        path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]  # programs put others there
        return cls(directory, dict(os.environ), path, list(sys.argv), main_script())

    @property
    def message(self) -> bytes:
        """What the child is told, before it can import anything that is not Python's own."""
        return b"\0".join(
            map(os.fsencode, [*self.main, str(len(self.arguments)), *self.arguments, *self.path])
        )


def main_script() -> tuple[str, str]:
    """Return how a child loads this program's main module: `module` and its name, or `path` and where it is.

    Both are empty if there is no such file: what is typed at a prompt or in a notebook, or given by `-c` or
    standard input, is nowhere to be loaded from.
    """
    main: Any = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None and name != "__main__":
        return "module", name
    path = getattr(main, "__file__", None)
    return ("", "") if path is None or path == "<stdin>" else ("path", os.path.abspath(path))


def refuse_while_loading() -> None:
    """Do nothing, unless this process is a child that loads a module only to find a tool in it.

    Raises:
        UnguardedScriptError: It is. What the program does when it is run must not be done again here.
    """
    what: str | None = getattr(sys.modules.get("__main__"), LOADING, None)
    if what is not None:
        raise UnguardedScriptError(what)
