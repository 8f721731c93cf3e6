"""Cooperative jobs: they share few threads, and none waits for what another does."""

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import scale
from intermission.kernel.workers import HELD, Workers
from intermission.testing import Gate, ManualClock
from pools import Make, hold, until

JOBS = 20
ROUNDS = scale.rounds(20, 500)


def blocked(workers: Workers, gate: Gate) -> None:
    """Stand at a gate as a cooperative job does."""
    with workers.blocking:
        gate.wait()


def test_those_that_do_not_block_are_done_by_one_thread(make: Make) -> None:
    workers, threads = make(), list[str]()

    def note() -> None:
        threads.append(threading.current_thread().name)

    def first() -> None:
        note()
        for _ in range(JOBS):
            workers.submit(note, cooperative=True)
        assert workers.busy == 1 + JOBS

    workers.submit(first, cooperative=True)
    until(lambda: len(threads) == 1 + JOBS)
    until(lambda: workers.busy == 0)
    assert set(threads) == {"intermission-worker-1"}
    assert workers.idle == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_ready_does_not_wait_for_what_blocks(make: Make, when: str) -> None:
    workers, gate, done = make(), Gate(), threading.Event()

    def block() -> None:
        if when == "before":
            workers.submit(done.set, cooperative=True)
        blocked(workers, gate)

    workers.submit(block, cooperative=True)
    gate.arrived()
    if when == "after":
        workers.submit(done.set, cooperative=True)
    assert done.wait(30)
    gate.open()


def test_many_that_block_have_a_thread_each(make: Make) -> None:
    workers, gate = make(), Gate()
    for _ in range(JOBS):
        workers.submit(blocked, workers, gate, cooperative=True)
    gate.arrived(JOBS)
    gate.open()
    until(lambda: workers.busy == 0)
    assert workers.peak == JOBS


def test_a_job_that_does_not_cooperate_is_not_counted_on(make: Make) -> None:
    workers, done = make(), threading.Event()
    gate = hold(workers, 2)
    workers.submit(done.set, cooperative=True)
    assert done.wait(30)
    gate.open()


def test_a_held_job_keeps_its_place_and_no_thread(make: Make) -> None:
    workers, ran = make(limit=1), list[str]()
    workers.submit(lambda: HELD, cooperative=True)
    until(lambda: workers.idle == 1)
    workers.submit(ran.append, "next", cooperative=True)
    assert (workers.busy, workers.waiting, ran) == (1, 1, [])

    workers.resume(ran.append, "held")
    until(lambda: workers.busy == 0)
    assert ran == ["held", "next"]
    assert workers.idle == 1


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_held_job_that_ends_where_it_is_makes_room_for_who_stands_in_line(
    make: Make, cooperative: bool
) -> None:
    workers, done = make(limit=1), threading.Event()
    workers.submit(lambda: HELD, cooperative=True)
    until(lambda: workers.idle == 1)
    workers.submit(done.set, cooperative=cooperative)
    assert workers.waiting == 1
    workers.end_held()
    assert done.wait(30)
    until(lambda: workers.busy == 0)


def test_a_held_job_goes_on_in_a_pool_that_is_full_or_closed(make: Make) -> None:
    workers, ran, gate = make(limit=2), list[str](), Gate()
    for _ in range(2):
        workers.submit(lambda: HELD, cooperative=True)
    until(lambda: workers.idle == 1)
    workers.resume(blocked, workers, gate)
    gate.arrived()
    workers.close()
    workers.resume(ran.append, "ran")
    until(lambda: ran == ["ran"])
    gate.open()
    until(lambda: workers.busy == 0)


def test_one_in_line_is_done_when_it_has_a_place_though_all_that_has_one_blocks(make: Make) -> None:
    workers, gates, done = make(limit=2), [Gate(), Gate()], threading.Event()
    for gate in gates:
        workers.submit(blocked, workers, gate, cooperative=True)
        gate.arrived()
    workers.submit(done.set, cooperative=True)
    assert workers.waiting == 1
    gates[0].open()
    assert done.wait(30)
    gates[1].open()


def test_one_that_raises_is_logged_and_gives_its_place_back(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    workers, done = make(limit=1), threading.Event()

    def fail() -> None:
        with workers.blocking:
            raise SystemExit

    workers.submit(fail, cooperative=True)
    workers.submit(done.set, cooperative=True)
    assert done.wait(30)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_where_the_system_starts_no_thread_what_is_ready_is_seen_to_later(
    make: Make, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    workers, ran, start = make(), list[int](), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("intermission-worker"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for number in range(3):
            workers.submit(ran.append, number, cooperative=True)
        clock.advance(1)
        assert ran == []
    clock.advance(1)
    until(lambda: ran == [0, 1, 2])


class Leaving:
    """The lock of a pool, and what happens right after a thread of the pool has left it and is idle."""

    def __init__(self, workers: Workers, after: Callable[[], None]) -> None:
        self._workers = workers
        self._lock: Any = workers._lock  # pyright: ignore[reportPrivateUsage] - the moment cannot be hit else
        self._after: Callable[[], None] | None = after

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        idle = self._workers.idle == 1
        self._lock.__exit__(*error)
        after = self._after
        if idle and after is not None:
            self._after = None
            after()


def test_a_thread_that_is_called_comes_though_the_pool_is_closed_before_it_waits(make: Make) -> None:
    workers, done = make(), threading.Event()

    def call_and_close() -> None:
        workers.submit(done.set, cooperative=True)
        workers.close()

    workers._lock = Leaving(workers, call_and_close)  # type: ignore[assignment]  # pyright: ignore[reportPrivateUsage] - as above
    workers.submit(int)
    assert done.wait(30)


def test_none_is_lost_and_none_done_twice_whatever_blocks_and_is_held(make: Make) -> None:
    """A race: jobs that hold, block and end, resumed by threads of all kinds, with threads that end soon."""
    workers, chance = make(limit=8, idle=0.0, wait=1e6), random.Random(5)
    never, ended = threading.Event(), list[int]()

    def go_on(number: int, steps: int) -> object:
        if chance.random() < 0.3:
            with workers.blocking:
                never.wait(chance.random() / 1000)
        if steps == 0:
            ended.append(number)
            return None
        later = threading.Thread(target=workers.resume, args=(go_on, number, steps - 1))
        if chance.random() < 0.3:
            later.start()
        else:
            workers.resume(go_on, number, steps - 1)
        return HELD

    for number in range(10 * ROUNDS):
        workers.submit(go_on, number, 5, cooperative=True)
        if not number % 5:
            workers.submit(never.wait, chance.random() / 1000)
    until(lambda: len(ended) >= 10 * ROUNDS)
    until(lambda: workers.busy == 0)
    assert sorted(ended) == list(range(10 * ROUNDS))
    assert workers.peak <= 8
