"""One of each wait of `intermission.blocking`, held up for good; how to see that a thread is in it."""

import multiprocessing
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, Full, LifoQueue, PriorityQueue, Queue
from subprocess import TimeoutExpired
from typing import Any, cast

from intermission import blocking
from intermission.testing import Gate

__all__ = ["WAITS", "Attempt", "Wait", "Waiter", "parked", "until_still"]

SLEEPER = ("sleep", "1000")
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


Waiter = Callable[..., object]
"""Waits for what never comes; takes `scope` and, if it knows a time limit, `timeout`."""


@dataclass(frozen=True)
class Wait:
    """A wait that nothing ends but a cancel or its time.

    Attributes:
        name: Its name.
        begin: Makes what is waited for, to go when the stack is closed, and returns what waits.
        in_time: What a wait whose time is over returns, or the type that it raises; None: it knows no time.
        looks: Whether it has to look at its scope now and then.
    """

    name: str
    begin: Callable[[ExitStack], Waiter]
    in_time: object = None
    looks: bool = False


class Attempt:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[..., object], *args: Any, **options: Any) -> None:
        self.outcome: object = None
        self.ended_at = 0.0
        self._call = partial(call, *args, **options)
        # A daemon: a wait that does not end must not keep the check from its end.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.outcome = error
        self.ended_at = time.monotonic()

    def ended(self, timeout: float = 30.0) -> object:
        """Return what the wait returned or raised."""
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "the wait has not ended"
        return self.outcome


def until_still(*threads: threading.Thread) -> None:
    """Return when threads stand where they stood some looks ago.

    One that looks at its scope now and then stands still, too. A machine under load may make a thread stand
    still that is on its way, so nothing but the place of a cancel may hang on this.
    """
    for thread in threads:
        _until_still(thread)


def _until_still(thread: threading.Thread) -> None:
    never, seen, place = threading.Event(), 0, None
    for _ in range(30_000):
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
        frame = frames.get(thread.ident or 0)
        now = None if frame is None else (frame.f_code, frame.f_lasti)
        seen, place = (seen + 1, place) if now == place and now is not None else (0, now)
        if seen >= 5:
            return
        assert thread.is_alive(), f"{thread.name} has ended and was not held up"
        never.wait(0.001)
    raise AssertionError(f"{thread.name} was not held up within 30 s")


def parked(condition: threading.Condition, count: int = 1) -> None:
    """Return when `count` threads wait for a condition."""
    never = threading.Event()
    for _ in range(30_000):
        if len(cast(Any, condition)._waiters) == count:
            return
        never.wait(0.001)
    raise AssertionError(f"{count} did not come to wait within 30 s")


def _get(kind: Callable[[], "Queue[int]"]) -> Callable[[ExitStack], Waiter]:
    def begin(_: ExitStack) -> Waiter:
        queue = kind()
        return partial(blocking.get, queue)

    return begin


def _put(_: ExitStack) -> Waiter:
    queue: Queue[int] = Queue(1)
    queue.put(1)
    return partial(blocking.put, queue, 2)


def _join_queue(_: ExitStack) -> Waiter:
    queue: Queue[int] = Queue()
    queue.put(1)
    return partial(blocking.join, queue)


def _join_thread(stack: ExitStack) -> Waiter:
    gate = Gate()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    stack.callback(thread.join)
    stack.callback(gate.open)
    return partial(blocking.join, thread)


def _semaphore(_: ExitStack) -> Waiter:
    semaphore = threading.BoundedSemaphore(1)
    semaphore.acquire()
    return partial(blocking.acquire, semaphore)


def _lock(_: ExitStack) -> Waiter:
    lock = threading.Lock()
    lock.acquire()
    return partial(blocking.acquire, lock)


def _foreign_lock(_: ExitStack) -> Waiter:
    lock = multiprocessing.Lock()
    lock.acquire()
    return partial(blocking.acquire, lock)


def _locked(_: ExitStack) -> Waiter:
    semaphore = threading.Semaphore(0)

    def wait(**options: Any) -> None:
        with blocking.locked(semaphore, **options):
            raise AssertionError("nobody has released it")

    return wait


def _rlock(_: ExitStack) -> Waiter:
    lock, taken, give_back = threading.RLock(), threading.Event(), threading.Event()

    def wait(**options: Any) -> object:
        def hold() -> None:
            with lock:
                taken.set()
                give_back.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        taken.wait(30)
        try:
            return blocking.acquire(lock, **options)
        finally:
            give_back.set()
            holder.join()

    return wait


def _event(_: ExitStack) -> Waiter:
    event = threading.Event()
    return partial(blocking.wait, event)


def _condition(_: ExitStack) -> Waiter:
    condition = threading.Condition()

    def wait(**options: Any) -> object:
        with condition:
            return blocking.wait(condition, **options)

    return wait


def _predicate(_: ExitStack) -> Waiter:
    condition = threading.Condition(threading.Lock())

    def wait(**options: Any) -> object:
        with condition:
            return blocking.wait_for(condition, lambda: False, **options)

    return wait


def _future(_: ExitStack) -> Waiter:
    future: Future[int] = Future()
    return partial(blocking.result, future)


def _all_futures(_: ExitStack) -> Waiter:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    return partial(_done, futures)


def _any_future(_: ExitStack) -> Waiter:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    return partial(_done, futures, return_when=FIRST_COMPLETED)


def _done(futures: "list[Future[int]]", **options: Any) -> int:
    return len(blocking.wait_futures(futures, **options).done)


def _child(stack: ExitStack) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE)
    stack.enter_context(child)
    stack.callback(child.kill)
    return child


def _process(stack: ExitStack) -> Waiter:
    child = _child(stack)
    return partial(blocking.wait, child)


def _communicate(stack: ExitStack) -> Waiter:
    child = _child(stack)
    return partial(blocking.communicate, child)


def _run(_: ExitStack) -> Waiter:
    return partial(blocking.run, SLEEPER, capture_output=True)


def _popen(_: ExitStack) -> Waiter:
    def wait(**options: Any) -> object:
        with blocking.popen(SLEEPER, stdout=subprocess.PIPE, **options) as child:
            assert child.stdout is not None
            return child.stdout.read()

    return wait


def _socket(stack: ExitStack) -> Waiter:
    ours, theirs = map(stack.enter_context, socket.socketpair())

    def wait(**options: Any) -> object:
        with blocking.sock_guard(ours, **options):
            return ours.recv(1)

    stack.callback(theirs.close)
    return wait


def _statement(_: ExitStack) -> Waiter:
    def wait(**options: Any) -> object:
        connection = sqlite3.connect(":memory:")
        try:
            with blocking.sqlite(connection, **options) as transaction:
                return transaction.execute(ENDLESS).fetchone()
        finally:
            connection.close()

    return wait


def _busy_database(stack: ExitStack) -> Waiter:
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "busy.db"
    other = stack.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
    other.execute("BEGIN EXCLUSIVE")

    def wait(**options: Any) -> object:
        connection = sqlite3.connect(path, timeout=1000)
        try:
            with blocking.sqlite(connection, **options) as transaction:
                return transaction.execute("CREATE TABLE t (x)")
        finally:
            connection.close()

    return wait


WAITS = [
    Wait("get", _get(Queue), Empty),
    Wait("get, last in first out", _get(LifoQueue), Empty),
    Wait("get, by priority", _get(PriorityQueue), Empty),
    Wait("put", _put, Full),
    Wait("join a queue", _join_queue, False),
    Wait("join a thread", _join_thread, False, looks=True),
    Wait("acquire a semaphore", _semaphore, False),
    Wait("acquire a lock", _lock, False, looks=True),
    Wait("acquire a reentrant lock", _rlock, False, looks=True),
    Wait("acquire a lock of processes", _foreign_lock, False, looks=True),
    Wait("locked", _locked, TimeoutError),
    Wait("wait for an event", _event, False),
    Wait("wait for a condition", _condition, False),
    Wait("wait_for", _predicate, False),
    Wait("result", _future, TimeoutError),
    Wait("wait_futures, all", _all_futures, 0),
    Wait("wait_futures, first", _any_future, 0),
    Wait("wait for a process", _process, TimeoutExpired),
    Wait("communicate", _communicate, TimeoutExpired),
    Wait("run", _run, TimeoutExpired),
    Wait("popen", _popen),
    Wait("sock_guard", _socket),
    Wait("sqlite, a statement", _statement, looks=True),  # it works, and so never stands still
    Wait("sqlite, a lock of others", _busy_database, looks=True),
]
