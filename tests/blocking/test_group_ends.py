"""When the group of a child counts as ended: not before it has, and not only when somebody has reaped it."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from intermission import Cancelled, CancelScope, blocking
from intermission.processes.groups import Group
from pids import has_ended, written

PATIENCE = 30.0
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER

# It does not heed SIGTERM, and has so much memory that its end takes a while.
LARGE = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = bytearray(b"x") * (300 << 20)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()}\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
signal.pause()
"""


@pytest.fixture
def adopting() -> Iterator[None]:
    """Make orphans children of this process, which does not reap them before the end."""
    known = ctypes.CDLL(None)
    known.prctl(SUBREAPER, 1, 0, 0, 0)
    yield
    known.prctl(SUBREAPER, 0, 0, 0, 0)
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass


def test_who_was_killed_has_ended_when_the_end_of_the_group_returns(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    child = subprocess.Popen(
        ["sh", "-c", '"$0" -c "$1" "$2" & sleep 1000', sys.executable, LARGE, path], start_new_session=True
    )
    (pid,) = written(path)
    Group(child, 0.1, None, whole_session=True).end()
    assert has_ended(pid)


@pytest.mark.usefixtures("adopting")
def test_a_process_that_has_ended_and_that_nobody_reaps_holds_nothing_up() -> None:
    begun = time.monotonic()
    with CancelScope(timeout=0.3), pytest.raises(Cancelled):
        blocking.run(["sh", "-c", "sleep 1000 & sleep 1000"], grace=PATIENCE)
    assert time.monotonic() - begun < PATIENCE / 2
