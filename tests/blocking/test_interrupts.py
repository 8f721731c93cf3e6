"""Ctrl-C while the main thread waits."""

import signal
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from intermission import CancelScope, blocking
from pools import until
from waiting import parked, until_still


@contextmanager
def ctrl_c(when: Callable[[], object]) -> Generator[None]:
    """Send the main thread the signal when something has come true, and see that it raises what it does."""

    def send() -> None:
        when()
        for _ in range(20):
            # Python does not heed a signal that comes just before it waits, but only when the wait is over.
            until_still(threading.main_thread())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    sender.join(30)


def test_ctrl_c_ends_a_wait_and_leaves_nothing_of_it() -> None:
    items: Queue[int] = Queue()
    condition: Any = items.not_empty
    scope = CancelScope.child_of(None)
    with ctrl_c(lambda: parked(condition)):
        blocking.get(items, scope=scope)
    assert not condition._waiters
    items.put(1)
    assert blocking.get(items, scope=scope) == 1


@pytest.mark.parametrize("scoped", [True, False])
def test_ctrl_c_ends_the_child_that_is_waited_for(scoped: bool, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    scope = CancelScope.child_of(None) if scoped else None
    with ctrl_c(lambda: until(ready.exists)):
        blocking.run(["sh", "-c", f"echo > {ready}; exec sleep 1000"], stdout=subprocess.PIPE, scope=scope)
