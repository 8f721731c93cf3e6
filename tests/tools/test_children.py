"""The processes that a runner keeps for its tools."""

from collections.abc import Iterator
from typing import Any

import pytest

from intermission.isolation.children import Children
from intermission.kernel.scope import CancelScope
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
from intermission.processes.groups import Descendant
from pids import has_ended, until_ended
from pools import until
from waiting import Attempt

ASKED: Any = {"module": "plain_tools", "name": "ambient", "args": {}, "check": False, "context": None}


class Nobody:
    """An owner of calls to whom nothing is left."""

    grace = 5.0

    def __init__(self, children: Children) -> None:
        self.children = children

    def left_behind(self, call_id: str, process: Descendant) -> None:
        raise AssertionError(f"{process} was left by {call_id}")


@pytest.fixture
def workers() -> Iterator[Workers]:
    timer = Timer()
    workers = Workers(timer=timer)
    yield workers
    workers.close(30)
    timer.close()


@pytest.fixture
def children(workers: Workers) -> Iterator[Children]:
    timer = Timer()
    children = Children(timer, workers, most_idle=2)
    yield children
    children.close()
    timer.close()


def ask(children: Children) -> int:
    """Have one of them say its number."""
    reply, _ = children.call(ASKED, CancelScope.child_of(None), Nobody(children), "c1")
    assert reply is not None
    return int(reply.values[0]["pid"])


def test_no_more_are_kept_than_allowed_and_the_others_end(children: Children) -> None:
    at_once = [Attempt(ask, children) for _ in range(6)]
    pids: set[Any] = {attempt.ended(60) for attempt in at_once}
    assert children.idle <= 2
    until(lambda: sum(not has_ended(pid) for pid in pids) <= 2)


def test_when_it_is_closed_the_idle_ones_end_and_a_call_after_that_has_one_for_itself(
    children: Children,
) -> None:
    first = ask(children)
    assert ask(children) == first
    children.close()
    until_ended(first)
    second = ask(children)
    assert children.idle == 0
    until_ended(second)
    children.close()
