"""What tests of workers share."""

import threading
from collections.abc import Callable

from intermission.kernel.workers import Budget, Workers
from intermission.testing import Gate

__all__ = ["Make", "hold", "run", "until"]

Make = Callable[..., Workers]
"""Makes a pool with the options of `Workers`, which the test that uses it closes in the end."""


def run(workers: Workers, budget: Budget = Budget.CALLS) -> threading.Thread:
    """Run a job that ends at once, and return the thread that it ran on."""
    done, threads = threading.Event(), list[threading.Thread]()

    def job() -> None:
        threads.append(threading.current_thread())
        done.set()

    workers.submit(job, budget=budget)
    assert done.wait(30)
    return threads[0]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does right after what it was seen to do."""
    never = threading.Event()
    for _ in range(30_000):
        if condition():
            return
        never.wait(0.001)
    raise AssertionError("it did not come true within 30 s")


def hold(workers: Workers, count: int = 1, budget: Budget = Budget.CALLS) -> Gate:
    """Let `count` jobs stand at a gate."""
    gate = Gate()
    for _ in range(count):
        workers.submit(gate.wait, budget=budget)
    gate.arrived(count)
    return gate
