"""All cores busy, so that threads are stopped at moments that a quiet machine never picks."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

__all__ = ["busy"]

# It ends by itself, too, if whoever began it is killed before he can end it.
_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000): pass
"""


@contextmanager
def busy(cores: int | None = None) -> Generator[None]:
    """Keep so many cores, by default all that this process may use, busy with a child process each."""
    count = len(os.sched_getaffinity(0)) if cores is None else cores
    with ExitStack() as stack:
        for _ in range(count):
            child = subprocess.Popen([sys.executable, "-S", "-E", "-c", _SPIN, str(os.getpid())])
            stack.enter_context(child)  # waits for it
            stack.callback(child.kill)
        yield
