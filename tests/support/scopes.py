"""What tests of cancel scopes share: a host on a manual clock, and a root scope that uses it."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from intermission.kernel.scope import ScopeHost
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
from intermission.testing import ManualClock

__all__ = ["hosted", "settled", "started"]


@contextmanager
def hosted(clock: ManualClock) -> Generator[ScopeHost]:
    """Give a host with at most four users' hooks at a time, and see that nothing of it is left."""
    timer = Timer(clock)
    host = ScopeHost(timer, Workers(timer=timer, aborts=4))
    yield host
    assert host.workers.close(30) == 0
    timer.close()


def settled(host: ScopeHost) -> None:
    """Wait until the users' hooks that were due have ended."""
    host.timer.poll()
    never = threading.Event()
    for _ in range(30_000):
        if host.workers.busy == 0:
            return host.timer.poll()
        never.wait(0.001)
    raise AssertionError("a hook did not end within 30 s")


def started(function: Callable[[], object]) -> threading.Thread:
    """Return a thread that runs `function`."""
    thread = threading.Thread(target=function)
    thread.start()
    return thread
