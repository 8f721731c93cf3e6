"""Functions of tools in processes that do what most tools do not. They import nothing of the runtime."""

import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = [
    "close_all",
    "close_and_open",
    "doubled",
    "end_a_fork",
    "fail_at_length",
    "fork",
    "number",
    "number_again",
    "scribble",
    "set_alarm",
    "tripled",
]


def fork(how: str) -> list[object]:
    """Fork, and come to an end in the copy, too."""
    copy = os.fork()
    if copy == 0:
        if how == "raises":
            raise LookupError("in the copy")
        if how == "exits":
            sys.exit(3)
        return ["the copy"]
    return ["the tool", os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])]


def end_a_fork() -> int | None:
    """Terminate a process that was forked by `multiprocessing`."""
    fork_of = multiprocessing.get_context("fork")
    begun = fork_of.Event()
    process = fork_of.Process(target=_wait, args=(begun,))
    process.start()
    begun.wait()
    process.terminate()
    process.join()
    return process.exitcode


def _wait(begun: Any) -> None:
    begun.set()
    threading.Event().wait(3600)


def close_all(count: int) -> str:
    """Close descriptors, as a daemon does that begins."""
    os.closerange(3, count)
    return "closed"


def close_and_open(path: str, count: int) -> str:
    """Close descriptors, and open a file, which gets the number of one of them."""
    os.closerange(3, count)
    _kept.extend(os.open(f"{path}{number}", os.O_CREAT | os.O_WRONLY) for number in range(5))
    return "opened"


_kept: list[int] = []


def fail_at_length(size: int) -> None:
    """Raise with a text of this length."""
    raise ValueError(f"it began {'x' * size} and ended")


def scribble() -> str:
    """Write into each descriptor that there is what would be the beginning of gigabytes."""
    for number in range(3, 20):
        with suppress(OSError):
            os.write(number, b"\xff\xff\xff\xffnoise")
    return "written"


def set_alarm() -> int:
    """Leave an alarm that would end the process in an hour."""
    signal.alarm(3600)
    return os.getpid()


def times(factor: int) -> Callable[[Callable[[], int]], Callable[[], int]]:
    """A decorator that multiplies a result."""

    def decorate(function: Callable[[], int]) -> Callable[[], int]:
        @functools.wraps(function)
        def multiplied() -> int:
            return factor * function()

        return multiplied

    return decorate


@times(2)
def doubled() -> int:
    """Return two."""
    return 1


def number() -> int:
    """Return one."""
    return 1


tripled = times(3)(number)


def number_again() -> int:
    """Return one."""
    return 1


bare = number_again
number_again = times(5)(number_again)
