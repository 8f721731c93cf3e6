"""All cores can be kept busy for a while, and nobody is left behind."""

import os
from pathlib import Path

from pools import until
from stress import busy


def children() -> set[str]:
    """The child processes of this one, by their ids."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


def seconds(child: str) -> float:
    """How long a child has kept a core busy."""
    user = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[11]
    return int(user) / os.sysconf("SC_CLK_TCK")


def test_each_core_is_kept_busy_by_a_child_that_is_gone_afterwards() -> None:
    before = children()
    with busy():
        spinning = children() - before
        assert len(spinning) == len(os.sched_getaffinity(0))
        until(lambda: all(seconds(child) > 0.05 for child in spinning))
    assert children() == before


def test_none_is_kept_busy_where_that_was_asked_for() -> None:
    before = children()
    with busy(0):
        assert children() == before
