import asyncio
import queue
import threading
from typing import Any

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from intermission.testing import ManualClock
from races import at_once
from scopes import hosted
from waiting import Attempt, parked

ROUNDS = scale.rounds(50, 500)


def test_without_a_scope_it_is_the_plain_wait() -> None:
    event, condition = threading.Event(), threading.Condition()
    assert blocking.wait(event, timeout=0.001) is False
    event.set()
    assert blocking.wait(event) is True
    with condition:
        assert blocking.wait(condition, timeout=0.001) is False
        assert blocking.wait_for(condition, lambda: 7) == 7
        assert blocking.wait_for(condition, lambda: 0, timeout=0.001) == 0
    ended = threading.Thread(target=int)
    ended.start()
    assert blocking.join(ended) is True


def test_what_is_waited_for_ends_the_wait() -> None:
    event, condition, box = threading.Event(), threading.Condition(), list[int]()
    scope = CancelScope.child_of(None)
    for_event = Attempt(blocking.wait, event, scope=scope)
    parked(vars(event)["_cond"])
    event.set()
    assert for_event.ended() is True

    def first() -> int:
        with condition:
            return blocking.wait_for(condition, lambda: box[0] if box else 0, scope=scope)

    for_predicate = Attempt(first)
    parked(condition)
    with condition:
        condition.notify_all()  # it is not true yet, so the wait goes on
    parked(condition)
    with condition:
        box.append(7)
        condition.notify_all()
    assert for_predicate.ended() == 7
    assert blocking.join(for_predicate.thread, scope=scope) is True


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_a_condition_is_held_again_when_the_cancel_is_raised(lock: Any) -> None:
    condition, scope = threading.Condition(lock()), CancelScope.child_of(None)
    in_block, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        with condition:
            try:
                blocking.wait_for(condition, lambda: False, scope=scope)
            except Cancelled:
                in_block.set()
                go_on.wait(30)
                raise

    attempt = Attempt(wait)
    parked(condition)
    scope.cancel()
    assert in_block.wait(30)
    assert not condition.acquire(blocking=False)
    go_on.set()
    assert isinstance(attempt.ended(), Cancelled)
    assert condition.acquire(blocking=False)
    condition.release()


def test_a_condition_that_is_taken_twice_is_taken_twice_again() -> None:
    condition, scope = threading.Condition(), CancelScope.child_of(None)

    def wait() -> None:
        with condition, condition:
            with pytest.raises(Cancelled):
                blocking.wait(condition, scope=scope)
            condition.release()
            assert not Attempt(condition.acquire, blocking=False).ended()
            condition.acquire()

    attempt = Attempt(wait)
    parked(condition)
    scope.cancel()
    assert attempt.ended() is None


def test_a_condition_that_is_not_held_is_refused() -> None:
    condition = threading.Condition(threading.Lock())
    with CancelScope():
        with pytest.raises(RuntimeError, match="not held"):
            blocking.wait(condition)
        with pytest.raises(RuntimeError, match="not held"):
            blocking.wait_for(condition, lambda: True)
    assert condition.acquire(blocking=False)
    condition.release()


def test_a_notify_that_meets_the_cancel_of_one_of_two_wakes_the_other() -> None:
    for _ in range(ROUNDS):
        condition, scope = threading.Condition(), CancelScope.child_of(None)

        def wait(condition: threading.Condition = condition, scope: CancelScope = scope) -> bool:
            with condition:
                return blocking.wait(condition, scope=scope)

        def notify(condition: threading.Condition = condition) -> None:
            with condition:
                condition.notify()

        one = Attempt(wait)
        parked(condition)
        other = Attempt(wait, scope=CancelScope.child_of(None))
        parked(condition, 2)
        at_once(notify, scope.cancel)
        if not isinstance(one.ended(), Cancelled):
            assert one.outcome is True
            notify()
        assert other.ended() is True


def test_an_event_that_is_set_as_the_cancel_comes_is_seen_or_the_cancel_is() -> None:
    for _ in range(ROUNDS):
        event, scope = threading.Event(), CancelScope.child_of(None)
        attempt = Attempt(blocking.wait, event, scope=scope)
        at_once(event.set, scope.cancel)
        assert attempt.ended() is True or isinstance(attempt.outcome, Cancelled)


def test_time_follows_the_clock_of_the_runtime() -> None:
    clock, items = ManualClock(), queue.Queue[int]()
    with hosted(clock) as host:
        scope = CancelScope.child_of(None, host=host)
        attempt = Attempt(blocking.get, items, timeout=3600, scope=scope)
        parked(items.not_empty)
        while host.timer.pending == 0:
            host.timer.poll()
        clock.advance(3600)
        assert isinstance(attempt.ended(), queue.Empty)


@pytest.mark.parametrize("other", [asyncio.Event(), threading.Barrier(2), 7])
def test_what_cannot_be_waited_for_is_refused(other: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot end a wait for .*; nothing was done"):
        blocking.wait(other)
