import sys
import threading

import pytest

import tree
from intermission.kernel.workers import Budget
from intermission.testing import ManualClock
from pools import Make, hold, until


class NoMoreThreads:
    """Lets the system refuse new threads while it is set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.on = False
        start = threading.Thread.start

        def start_or_fail(thread: threading.Thread) -> None:
            if self.on and thread.name.startswith("intermission-worker"):
                raise RuntimeError("can't start new thread")
            start(thread)

        patch.setattr(threading.Thread, "start", start_or_fail)


def test_where_the_system_starts_no_thread_a_job_waits_for_one_that_is_there(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = NoMoreThreads(monkeypatch)
    workers, ran = make(), list[str]()
    gate = hold(workers)
    none.on = True
    workers.submit(ran.append, "call")
    workers.submit(ran.append, "reader", budget=Budget.RESERVE)
    assert (workers.waiting, workers.busy) == (2, 1)
    gate.open()
    until(lambda: len(ran) == 2)


def test_where_the_system_starts_no_thread_at_all_it_is_asked_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    none = NoMoreThreads(monkeypatch)
    workers, ran = make(), list[int]()
    none.on = True
    for number in range(3):
        workers.submit(ran.append, number, budget=Budget.RESERVE)
    clock.advance(10)
    clock.advance(10)
    assert (ran, workers.waiting) == ([], 3)
    none.on = False
    clock.advance(10)
    until(lambda: ran == [0, 1, 2])


def test_where_the_system_starts_no_thread_a_call_is_refused_in_time(
    make: Make, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    none = NoMoreThreads(monkeypatch)
    workers, ran = make(wait=30.0), list[str]()
    none.on = True
    workers.submit(ran.append, "ran", refused=lambda: ran.append("refused"))
    clock.advance(31)
    assert (ran, workers.waiting, workers.busy) == (["refused"], 0, 0)


FORK = """
import os, sys, warnings
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
warnings.simplefilter("ignore")
workers = Workers(timer=Timer())
if os.fork() == 0:
    try:
        workers.submit(print, "ran")
    except RuntimeError as error:
        print("forked child" in str(error), flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_child_is_told_that_the_threads_are_not_its_own() -> None:
    finished = tree.run(sys.executable, "-c", FORK, timeout=60)
    finished.check()
    assert finished.output == "True\n"
