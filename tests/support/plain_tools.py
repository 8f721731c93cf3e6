"""Functions that tests call in processes of their own, and that import nothing of the runtime."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

__all__ = ["add", "ambient", "begun", "delete", "light", "nap", "spin", "vanish", "write_to_all"]


def begun(path: str) -> None:
    """Write this process's number down, in one step."""
    new = Path(f"{path}.new")
    new.write_text(f"{os.getpid()}\n")
    new.rename(path)


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def light() -> bool:
    """Say whether this process does without the runtime."""
    return "intermission" not in sys.modules and "pydantic" not in sys.modules


def nap() -> str:
    """Wait for a moment."""
    threading.Event().wait(0.005)
    return "awake"


def spin(path: str) -> NoReturn:
    """Compute for ever."""
    begun(path)
    while True:
        pass


def delete(path: str) -> str:
    """Delete a directory."""
    Path(path).rmdir()
    return "deleted"


def write_to_all(text: str) -> str:
    """Write to what every program writes to."""
    print(text)  # noqa: T201  # that is what is tested
    print(text, file=sys.stderr)  # noqa: T201  # that is what is tested
    os.write(1, text.encode())
    return text


def vanish(how: str) -> None:
    """End this process, in one of several ways."""
    ways: dict[str, Callable[[], object]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "_exit": lambda: os._exit(3),
    }
    ways[how]()


def ambient() -> dict[str, object]:
    """Say where this runs."""
    return {"cwd": os.getcwd(), "mark": os.environ.get("MARK"), "pid": os.getpid()}
