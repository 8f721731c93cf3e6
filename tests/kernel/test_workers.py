import contextvars
import gc
import logging
import threading
import weakref
from functools import partial

import pytest

import scale
from intermission.kernel.timer import Timer
from intermission.kernel.worker_jobs import Job
from intermission.kernel.workers import Budget, Workers
from intermission.testing import Gate, ManualClock
from pools import Make, hold, run, until

ROUNDS = scale.rounds(50, 500)


def test_a_job_runs_on_a_named_daemon_thread_that_the_next_one_finds_warm(make: Make) -> None:
    workers = make(name="crew")
    first = run(workers)
    until(lambda: workers.idle == 1)
    second = run(workers)

    assert first is second
    assert (first.name, first.daemon) == ("crew-1", True)
    assert workers.peak == 1


def test_the_thread_that_became_idle_last_is_taken_first(make: Make) -> None:
    workers = make()
    gates = [hold(workers) for _ in range(3)]
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("intermission-worker-")]
    threads.sort(key=lambda thread: thread.name)
    for index in (0, 2, 1):
        idle = workers.idle
        gates[index].open()
        until(lambda: workers.idle > idle)  # noqa: B023 - it is called before the next round

    assert run(workers) is threads[1]


def test_at_the_limit_jobs_stand_in_line_and_run_in_order(make: Make) -> None:
    workers, ran = make(limit=2), list[int]()
    gate = hold(workers, 2)
    for number in range(10):
        workers.submit(ran.append, number)

    assert (workers.busy, workers.waiting, workers.idle, ran) == (2, 10, 0, [])
    last = threading.Event()
    gate.open()
    workers.submit(last.set)
    assert last.wait(30)
    until(lambda: len(ran) == 10)
    assert (sorted(ran), workers.peak) == (list(range(10)), 2)


def test_jobs_in_line_for_one_thread_run_first_in_first_out(make: Make) -> None:
    workers, ran = make(limit=1), list[int]()
    gate = hold(workers)
    for number in range(10):
        workers.submit(ran.append, number)
    gate.open()
    until(lambda: len(ran) == 10)
    assert ran == list(range(10))


def test_a_job_that_stood_in_line_for_too_long_is_refused_and_never_runs(
    make: Make, clock: ManualClock
) -> None:
    workers, ran = make(limit=1, wait=30.0), list[str]()
    gate = hold(workers)
    workers.submit(ran.append, "ran", refused=lambda: ran.append(threading.current_thread().name))

    clock.advance(29.9)
    assert ran == []
    clock.advance(0.1)
    assert (ran, workers.refused_count, workers.waiting) == (["intermission-timer"], 1, 0)
    gate.open()
    until(lambda: workers.idle == 1)
    assert ran == ["intermission-timer"]


def test_a_job_that_got_a_thread_is_not_refused_later(make: Make, clock: ManualClock, timer: Timer) -> None:
    workers, ran = make(limit=1, wait=30.0), list[str]()
    gate = hold(workers)
    workers.submit(ran.append, "ran", refused=lambda: ran.append("refused"))
    gate.open()
    until(lambda: workers.idle == 1)
    clock.advance(60)
    assert (ran, workers.refused_count, timer.pending) == (["ran"], 0, 0)


def test_a_job_that_got_a_thread_is_not_kept_for_a_refusal(make: Make) -> None:
    class Thing:
        def job(self) -> None:
            pass

    workers = make(limit=1)
    gate = hold(workers)
    thing = Thing()
    gone = weakref.ref(thing)
    workers.submit(thing.job)
    del thing
    gate.open()
    until(lambda: workers.idle == 1)
    assert gone() is None


def test_a_refusal_that_nobody_asked_for_is_logged(
    make: Make, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    workers = make(limit=1, wait=1.0)
    gate = hold(workers)
    workers.submit(int)
    clock.advance(1)
    gate.open()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_exactly_one_of_job_and_refusal_happens(make: Make, clock: ManualClock, timer: Timer) -> None:
    workers = make(limit=1, wait=1.0)
    for _ in range(ROUNDS):
        ran, start, gate = list[str](), threading.Barrier(2), hold(workers)
        for _ in range(3):
            workers.submit(ran.append, "ran", refused=partial(ran.append, "refused"))

        def free(start: threading.Barrier = start, gate: Gate = gate) -> None:
            start.wait(30)
            gate.open()

        freeing = threading.Thread(target=free)
        freeing.start()
        start.wait(30)
        clock.advance(1)
        freeing.join(30)
        until(lambda: workers.busy == 0)
        timer.poll()
        assert len(ran) == 3


@pytest.mark.parametrize("other", [Budget.HOOKS, Budget.RESERVE, Budget.LEAVES, Budget.ABORT])
def test_calls_at_their_limit_starve_no_other_budget(make: Make, other: Budget) -> None:
    workers = make(limit=2)
    gate = hold(workers, 2)
    workers.submit(int)
    assert run(workers, other)
    assert workers.waiting == 1
    gate.open()


@pytest.mark.parametrize(
    ("full", "option"),
    [
        (Budget.HOOKS, "hooks"),
        (Budget.RESERVE, "reserve"),
        (Budget.LEAVES, "leaves"),
        (Budget.ABORT, "aborts"),
    ],
)
def test_no_other_budget_at_its_limit_starves_calls(make: Make, full: Budget, option: str) -> None:
    workers = make(**{option: 2})
    gate = hold(workers, 2, full)
    assert run(workers)
    gate.open()


def test_the_reserve_waits_as_long_as_it_takes_and_is_not_refused(make: Make, clock: ManualClock) -> None:
    workers, ran = make(reserve=1), list[str]()
    gate = hold(workers, 1, Budget.RESERVE)
    workers.submit(ran.append, "ran", refused=lambda: ran.append("refused"), budget=Budget.RESERVE)
    clock.advance(1_000_000)
    assert workers.waiting == 1
    gate.open()
    until(lambda: ran == ["ran"])


def test_one_abort_too_many_is_refused_at_once(make: Make, timer: Timer) -> None:
    workers, ran = make(aborts=1), list[str]()
    gate = hold(workers, 1, Budget.ABORT)
    workers.submit(ran.append, "ran", refused=lambda: ran.append("refused"), budget=Budget.ABORT)
    timer.poll()
    assert (ran, workers.waiting) == (["refused"], 0)
    gate.open()


def test_a_thread_that_is_idle_for_long_ends(make: Make) -> None:
    workers = make(idle=0.001)
    for _ in range(ROUNDS):
        thread = run(workers)
        thread.join(30)
        assert not thread.is_alive()
    assert (workers.idle, workers.busy) == (0, 0)


def test_no_job_is_lost_to_a_thread_that_is_about_to_end(make: Make) -> None:
    workers = make(idle=0.0)
    for _ in range(10 * ROUNDS):
        run(workers)


def test_an_idle_thread_keeps_nothing_of_its_last_job(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the test runner records of the exception would keep its traceback.
    monkeypatch.setattr(logging.getLogger(Job.__module__), "disabled", True)

    class Thing:
        def job(self) -> None:
            raise ValueError

    workers = make()
    thing = Thing()
    gone = weakref.ref(thing)
    workers.submit(thing.job)
    del thing
    until(lambda: workers.idle == 1)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit])
def test_a_job_that_raises_is_logged_and_costs_no_thread(
    make: Make, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    workers = make()
    workers.submit(fail)
    until(lambda: workers.idle == 1)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert run(workers).name.endswith("-1")


def test_a_job_has_an_empty_context_or_the_one_it_is_given(make: Make) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    workers, seen, done = make(), list[str](), threading.Semaphore(0)

    def job() -> None:
        seen.append(variable.get())
        variable.set("changed")
        done.release()

    variable.set("of the caller")
    given = contextvars.Context()
    for context in (None, None, contextvars.copy_context(), given):
        workers.submit(job, context=context)
        assert done.acquire(timeout=30)
    until(lambda: workers.busy == 0)

    assert seen == ["unset", "unset", "of the caller", "unset"]
    assert given[variable] == "changed"
    assert variable.get() == "of the caller"


def test_closing_refuses_the_line_and_tells_who_still_works(make: Make, timer: Timer) -> None:
    workers, ran = make(limit=1), list[str]()
    gate = hold(workers)
    workers.submit(ran.append, "ran", refused=lambda: ran.append("in line"))

    assert workers.close() == 1
    workers.submit(ran.append, "ran", refused=lambda: ran.append("too late"))
    timer.poll()
    assert (ran, workers.refused_count) == (["in line", "too late"], 2)
    gate.open()
    assert workers.close(30) == 0


def test_what_leaves_is_done_in_a_pool_that_is_closed_and_in_line_too(make: Make) -> None:
    workers, ran = make(leaves=1), list[str]()
    gate = hold(workers, 1, Budget.LEAVES)
    workers.submit(ran.append, "in line", budget=Budget.LEAVES, cooperative=True)
    workers.close()
    workers.submit(ran.append, "late", budget=Budget.LEAVES, cooperative=True)
    assert (ran, workers.waiting) == ([], 2)
    gate.open()
    until(lambda: ran == ["in line", "late"])
    assert workers.refused_count == 0


def test_closing_lets_idle_threads_go_at_once(make: Make) -> None:
    workers = make(idle=1e300)
    thread = run(workers)
    until(lambda: workers.idle == 1)
    workers.close()
    thread.join(30)
    assert not thread.is_alive()


def test_a_refusal_is_told_when_the_timer_is_closed_too() -> None:
    timer = Timer()
    workers, ran = Workers(timer=timer), list[str]()
    workers.close()
    timer.close()
    workers.submit(int, refused=lambda: ran.append("refused"))
    assert ran == ["refused"]


def test_a_job_may_close_its_pool(make: Make) -> None:
    workers, left = make(), list[int]()
    workers.submit(lambda: left.append(workers.close(30)))
    until(lambda: workers.busy == 0)
    assert left == [1]


def test_a_job_may_submit_another(make: Make) -> None:
    workers, done = make(limit=1), threading.Event()
    workers.submit(lambda: workers.submit(done.set))
    assert done.wait(30)


def test_many_threads_submit_and_each_job_runs_once_within_the_limit(make: Make) -> None:
    workers, ran, start = make(limit=4, idle=0.001, wait=1e6), list[int](), threading.Barrier(8)
    count = 4 * ROUNDS

    def submit(first: int) -> None:
        start.wait(30)
        for number in range(first, first + count):
            workers.submit(ran.append, number)

    threads = [threading.Thread(target=submit, args=(index * count,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    until(lambda: len(ran) == 8 * count)
    until(lambda: workers.busy == 0)
    assert sorted(ran) == list(range(8 * count))
    assert workers.peak <= 4
    assert workers.waiting == 0
