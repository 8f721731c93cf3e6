"""Closes a log in a signal handler, at each line of a call in turn: interrupted.py DIRECTORY CALL STEP.

It says how many lines there were, and at how many of them the call succeeded all the same. Where the handler
waits for what the call has, it hangs. Of the lines each STEP-th is taken.
"""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lmdb.verify

from children import say
from intermission_storage import Kind, LmdbEventLog, LogClosedError, Record

CHECK_OF_PAGES = lmdb.verify.__file__
RECORD = Record(Kind.EVENT, {})


class Interruption:
    """Sends this process a signal at one of the lines that its main thread comes to.

    Args:
        line: Which one, from 0.
    """

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interruption | None":
        """Trace a call."""
        if frame.f_code.co_filename == CHECK_OF_PAGES:
            return None  # thousands of lines that wait for nothing
        if event == "line":
            if not self.left:
                signal.raise_signal(signal.SIGUSR1)
            self.left -= 1
        return self


CALLS: dict[str, Callable[[LmdbEventLog], object]] = {
    "append": lambda log: log.append("s", [RECORD]),
    "claim": lambda log: log.append("s", [RECORD], claim=True),
    "read": lambda log: log.read("s"),
    "follow": lambda log: log.follow("t", timeout=0.001),
    "delete": lambda log: log.delete("u"),
    "open": lambda log: LmdbEventLog(log.path.with_name("other"), sync=False).close(),
}


def interrupted(log: LmdbEventLog, call: Callable[[LmdbEventLog], object], line: int) -> tuple[bool, bool]:
    """Call; return whether it came to that line, and whether it succeeded."""

    def close(*_: object) -> None:
        log.close()

    signal.signal(signal.SIGUSR1, close)
    interruption = Interruption(line)
    sys.settrace(interruption)
    try:
        call(log)
        succeeded = True
    except LogClosedError:
        succeeded = False
    finally:
        sys.settrace(None)
    return interruption.left < 0, succeeded


def main(directory: str, name: str, step: str) -> None:
    """Interrupt the call at its first line, then at its second, and so on, until it is over before."""
    call, path, line, successes = CALLS[name], Path(directory) / "log", 0, 0
    while True:
        with LmdbEventLog(path, sync=False) as log:
            before = log.head("s").position
            came_there, succeeded = interrupted(log, call, line)
        with LmdbEventLog(path, sync=False) as log:
            appended = log.head("s").position - before
        if name in {"append", "claim"}:
            assert appended == succeeded, (line, appended, succeeded)
        if not came_there:
            break
        successes += succeeded
        line += int(step)
    say([line, successes])


if __name__ == "__main__":
    main(*sys.argv[1:])
