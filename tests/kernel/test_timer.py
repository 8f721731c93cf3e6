import logging
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

import scale
import tree
from intermission.kernel.timer import Timer, default_timer
from intermission.testing import Gate, ManualClock
from interrupts import at_each_step, interrupt

ROUNDS = scale.rounds(50, 500)


@pytest.fixture
def timer() -> Iterator[Timer]:
    timer = Timer()
    yield timer
    timer.close()


@pytest.fixture
def steered(clock: ManualClock) -> Iterator[Timer]:
    timer = Timer(clock)
    yield timer
    timer.close()


def thread_of(timer: Timer) -> threading.Thread:
    threads: list[threading.Thread] = []
    timer.call_soon(lambda: threads.append(threading.current_thread()))
    timer.poll()
    return threads[0]


def test_functions_run_in_the_order_of_their_times(clock: ManualClock, steered: Timer) -> None:
    ran: list[float] = []
    for seconds in (3.0, 1.0, 2.0):
        steered.call_later(seconds, ran.append, seconds)

    clock.advance(2.5)
    assert ran == [1.0, 2.0]
    clock.advance(0.5)
    assert ran == [1.0, 2.0, 3.0]


def test_functions_of_one_time_run_in_the_order_of_their_hand_in(clock: ManualClock, steered: Timer) -> None:
    ran: list[int] = []
    for number in range(100):
        steered.call_later(1, ran.append, number)
    clock.advance(1)
    assert ran == list(range(100))


def test_on_a_clock_that_tells_of_no_moves_poll_runs_what_is_due() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    timer.call_later(3600, ran.append, 1)
    timer.poll()
    assert ran == []
    clock.advance(3600)
    timer.poll()
    timer.close()
    assert ran == [1]


def test_a_poll_that_a_close_comes_before_is_let_go(clock: ManualClock) -> None:
    timer, gate = Timer(clock), Gate()
    timer.call_later(1, gate.wait)
    mover = threading.Thread(target=clock.advance, args=(1,))
    mover.start()
    gate.arrived()
    timer.close(timeout=0)
    gate.open()
    mover.join(10)  # far less than the patience of a poll
    assert not mover.is_alive()


def test_a_function_runs_in_real_time(timer: Timer) -> None:
    gate = Gate()
    timer.call_later(0.01, gate.open)
    gate.wait()


def test_an_earlier_deadline_is_not_held_up_by_a_later_one_that_the_thread_sleeps_for(timer: Timer) -> None:
    timer.call_later(3600, print)
    timer.poll()
    gate = Gate()
    timer.call_later(0.01, gate.open)
    gate.wait()


def test_what_was_cancelled_never_runs_and_is_let_go(clock: ManualClock, steered: Timer) -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    handle = steered.call_later(1, print, thing)
    handle.cancel()
    handle.cancel()
    del thing

    assert gone() is None
    assert handle.cancelled
    clock.advance(1)


def test_what_ran_is_let_go_and_cannot_be_cancelled(clock: ManualClock, steered: Timer) -> None:
    handle = steered.call_later(1, int)
    clock.advance(1)
    handle.cancel()
    assert handle.cancelled
    assert steered.pending == 0


def test_cancelled_deadlines_do_not_pile_up(timer: Timer) -> None:
    timer.call_later(3600, int)
    for _ in range(20):
        for _ in range(1000):
            timer.call_later(3600, int).cancel()
        timer.poll()
    assert timer.pending < 3000
    handles = [timer.call_later(3600, int) for _ in range(10_000)]
    timer.poll()
    for handle in handles:
        handle.cancel()
    timer.poll()
    assert timer.pending < 100


def test_a_function_that_raises_is_logged_and_costs_no_other(
    clock: ManualClock, steered: Timer, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    def fail() -> None:
        raise SystemExit(3)

    steered.call_later(1, fail)
    steered.call_later(1, ran.append, 1)
    clock.advance(1)

    assert ran == [1]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("seconds", [math.inf, 1e300, 1e18])
def test_a_huge_time_never_comes_and_does_no_harm(timer: Timer, seconds: float) -> None:
    handle = timer.call_later(seconds, int)
    timer.poll()
    assert not handle.cancelled
    handle.cancel()


def test_a_time_must_be_a_number(timer: Timer) -> None:
    with pytest.raises(ValueError, match="nan"):
        timer.call_later(math.nan, int)


def test_what_is_in_the_past_runs_at_once(steered: Timer) -> None:
    ran: list[int] = []
    steered.call_later(-5, ran.append, 1)
    steered.poll()
    assert ran == [1]


def test_what_is_wanted_soon_runs_before_what_is_due(clock: ManualClock, steered: Timer) -> None:
    gate, ran = Gate(), list[str]()
    steered.call_soon(gate.wait)
    gate.arrived()
    steered.call_later(0, ran.append, "due")
    steered.call_soon(ran.append, "soon")
    gate.open()
    steered.poll()
    assert ran == ["soon", "due"]


def test_a_function_may_use_the_timer(clock: ManualClock, steered: Timer) -> None:
    ran: list[str] = []

    def outer() -> None:
        steered.call_later(0, ran.append, "inner")
        steered.poll()

    steered.call_soon(outer)
    steered.poll()
    steered.poll()
    assert ran == ["inner"]


def test_the_thread_ends_when_idle_and_comes_back_when_needed() -> None:
    timer = Timer(idle=0.001)
    for _ in range(ROUNDS):
        thread = thread_of(timer)
        thread.join(30)
        assert not thread.is_alive()
        assert thread.daemon
    timer.close()


def test_no_hand_in_is_lost_while_the_thread_ends() -> None:
    timer = Timer(idle=0.0)
    for _ in range(20 * ROUNDS):
        gate = threading.Event()
        timer.call_soon(gate.set)
        assert gate.wait(30)
    timer.close()


def test_the_thread_does_not_stay_for_deadlines_that_are_all_cancelled() -> None:
    timer = Timer(idle=0.01)
    timer.call_later(3600, int).cancel()
    handle = timer.call_later(3600, int)
    thread = thread_of(timer)
    handle.cancel()
    thread.join(30)
    assert not thread.is_alive()
    timer.close()


def test_many_threads_hand_in_and_cancel_and_each_function_runs_once() -> None:
    timer, ran = Timer(), list[int]()
    count = 40 * ROUNDS

    def hand_in(first: int) -> None:
        for number in range(first, first + count):
            timer.call_later(0.0001 * (number % 7), ran.append, number)
            timer.call_later(100, ran.append, -1).cancel()

    threads = [threading.Thread(target=hand_in, args=(index * count,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    last = threading.Event()
    timer.call_later(0.01, last.set)
    assert last.wait(30)
    timer.poll()
    timer.close()
    assert sorted(ran) == list(range(4 * count))


def test_a_closed_timer_runs_nothing_more_and_refuses(clock: ManualClock) -> None:
    timer, ran = Timer(clock), list[int]()
    timer.call_later(1, ran.append, 1)
    timer.close()
    timer.close()
    clock.advance(2)

    assert ran == []
    assert timer.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        timer.call_later(0, ran.append, 2)
    timer.poll()


def test_a_function_may_close_the_timer() -> None:
    timer = Timer()
    closed = threading.Event()

    def close() -> None:
        timer.close()
        closed.set()

    timer.call_soon(close)
    assert closed.wait(30)


def test_an_interrupt_at_any_step_of_a_hand_in_leaves_a_timer_that_works() -> None:
    timers: list[Timer] = []

    def prepare() -> Callable[[], object]:
        timers.append(Timer())
        return lambda: timers[-1].call_later(0, int).cancel()

    for _ in at_each_step(prepare, interrupt):
        timers[-1].poll()
        timers[-1].close()
    timers[-1].close()
    assert len(timers) > 50


def test_a_handler_may_use_the_timer_at_any_step_of_it() -> None:
    timer, ran = Timer(), list[int]()

    def work() -> None:
        timer.call_later(0, ran.append, 1)
        timer.call_later(1000, ran.append, 2).cancel()

    steps = list(at_each_step(lambda: work, lambda: timer.call_soon(ran.append, 3)))
    timer.poll()
    timer.close()
    assert len(steps) > 50
    assert ran.count(3) == len(steps)


def test_a_hand_in_at_any_step_of_a_thread_that_ends_is_not_lost() -> None:
    timers: list[Timer] = []
    gates: list[threading.Event] = []

    def prepare() -> Callable[[], object]:
        timers.append(Timer(idle=0.0))
        gates.append(threading.Event())
        return lambda: thread_of(timers[-1]).join(30)

    for _ in at_each_step(
        prepare, lambda: timers[-1].call_later(0, gates[-1].set), module="timer", in_threads=True
    ):
        assert gates[-1].wait(30)
        timers[-1].close()
    timers[-1].close()
    assert len(timers) > 100


def test_a_deadline_at_any_step_of_a_thread_that_goes_to_sleep_wakes_it() -> None:
    timers: list[Timer] = []
    gates: list[threading.Event] = []
    reached: list[int] = []

    def prepare() -> Callable[[], object]:
        timers.append(Timer(idle=300.0))
        gates.append(threading.Event())
        # In the last round the thread sleeps before it gets to the step.
        return lambda: (timers[-1].call_later(200, int), gates[-1].wait(0.5))

    def hand_in() -> None:
        if not timers[-1].is_closed:
            reached.append(len(timers))
            timers[-1].call_later(0, gates[-1].set)

    for _ in at_each_step(prepare, hand_in, module="timer", in_threads=True):
        assert gates[-1].wait(10)
        timers[-1].close()
    timers[-1].close()
    assert len(reached) > 50


def test_where_the_system_starts_no_named_thread_the_timer_works_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    timer = Timer()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        timer.poll()
    timer.close()


def test_the_default_timer_is_one() -> None:
    assert default_timer() is default_timer()


FORK = """
import os, sys, warnings
from intermission.kernel.timer import Timer
warnings.simplefilter("ignore")
timer = Timer()
timer.call_later(1000, print, "of the parent")
timer.poll()
if os.fork() == 0:
    assert timer.pending == 0
    timer.call_soon(print, "of the child")
    timer.poll()
    sys.stdout.flush()
    os._exit(0)
assert os.wait()[1] == 0
assert timer.pending == 1
"""


def test_a_forked_child_has_a_timer_of_its_own() -> None:
    finished = tree.run(sys.executable, "-c", FORK, timeout=60)
    finished.check()
    assert finished.output == "of the child\n"
