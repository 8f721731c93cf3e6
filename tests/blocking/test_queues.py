import multiprocessing
import queue
import sys
import threading
from functools import partial
from queue import Empty, Full, Queue
from typing import Any

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from races import at_once
from waiting import Attempt, parked

ROUNDS = scale.rounds(50, 500)


def test_without_a_scope_it_is_the_plain_wait() -> None:
    items: Queue[int] = Queue(1)
    blocking.put(items, 1)
    with pytest.raises(Full):
        blocking.put(items, 2, timeout=0)
    assert blocking.get(items) == 1
    with pytest.raises(Empty):
        blocking.get(items, timeout=0.001)


def test_what_is_put_wakes_who_waits_and_a_free_place_whoever_would_put() -> None:
    items: Queue[int] = Queue(1)
    with CancelScope() as scope:
        getter = Attempt(blocking.get, items, scope=scope)
        parked(items.not_empty)
        items.put(1)
        assert getter.ended() == 1
        items.put(2)
        putter = Attempt(blocking.put, items, 3, scope=scope)
        parked(items.not_full)
        assert items.get() == 2
        putter.ended()
        assert items.get() == 3


def test_the_orders_of_priority_and_last_in_first_out_are_kept() -> None:
    with CancelScope():
        by_priority: queue.PriorityQueue[int] = queue.PriorityQueue()
        last_first: queue.LifoQueue[int] = queue.LifoQueue()
        for number in (2, 1, 3):
            blocking.put(by_priority, number)
            blocking.put(last_first, number)
        assert [blocking.get(by_priority) for _ in range(3)] == [1, 2, 3]
        assert [blocking.get(last_first) for _ in range(3)] == [3, 1, 2]


def test_an_item_that_meets_the_cancel_is_returned_or_still_in_the_queue() -> None:
    for number in range(ROUNDS):
        items: Queue[int] = Queue()
        scope = CancelScope.child_of(None)
        getter = Attempt(blocking.get, items, scope=scope)
        parked(items.not_empty)
        at_once(partial(items.put, number), scope.cancel)
        if isinstance(getter.ended(), Cancelled):
            assert items.get_nowait() == number
        else:
            assert getter.outcome == number
            assert items.empty()


def test_an_item_that_comes_after_the_cancel_stays_in_the_queue() -> None:
    items: Queue[int] = Queue()
    scope = CancelScope.child_of(None)
    getter = Attempt(blocking.get, items, scope=scope)
    parked(items.not_empty)
    with items.mutex:
        scope.cancel()  # it has woken the getter, which comes no further before we let go
        items.queue.append(1)
    assert isinstance(getter.ended(), Cancelled)
    assert items.get_nowait() == 1


def test_an_item_that_meets_the_cancel_of_one_of_two_wakes_the_other() -> None:
    for _ in range(ROUNDS):
        items: Queue[str] = Queue()
        scope, other_scope = CancelScope.child_of(None), CancelScope.child_of(None)
        one = Attempt(blocking.get, items, scope=scope)
        parked(items.not_empty)
        other = Attempt(blocking.get, items, scope=other_scope)
        parked(items.not_empty, 2)
        at_once(partial(items.put, "first"), scope.cancel)
        if isinstance(one.ended(), Cancelled):
            assert other.ended() == "first"
        else:
            items.put("second")
            assert (one.outcome, other.ended()) == ("first", "second")


def test_a_place_that_meets_the_cancel_of_one_of_two_wakes_the_other() -> None:
    for _ in range(ROUNDS):
        items: Queue[str] = Queue(1)
        items.put("before")
        scope = CancelScope.child_of(None)
        one = Attempt(blocking.put, items, "one", scope=scope)
        parked(items.not_full)
        other = Attempt(blocking.put, items, "other", scope=CancelScope.child_of(None))
        parked(items.not_full, 2)
        at_once(items.get, scope.cancel)
        if isinstance(one.ended(), Cancelled):
            other.ended()
            assert items.get_nowait() == "other"
        else:
            assert items.get(timeout=30) == "one"
            other.ended()
            assert items.get_nowait() == "other"
        assert items.empty()


def test_many_who_get_and_put_while_scopes_are_cancelled_lose_nothing_and_double_nothing() -> None:
    items: Queue[int] = Queue(3)
    taken: list[int] = []
    total = 20 * ROUNDS
    scopes = [CancelScope.child_of(None) for _ in range(total)]

    def take() -> None:
        while len(taken) < total:
            scope = scopes[len(taken) % total]
            try:
                taken.append(blocking.get(items, timeout=0.05, scope=scope))
            except (Cancelled, Empty):
                scopes[len(taken) % total] = CancelScope.child_of(None)

    def give(first: int) -> None:
        for number in range(first, total, 2):
            blocking.put(items, number, scope=CancelScope.child_of(None))

    def cancel() -> None:
        while len(taken) < total:
            scopes[len(taken) % total].cancel()

    at_once(take, take, take, partial(give, 0), partial(give, 1), cancel)
    assert sorted(taken) == list(range(total))


def test_join_returns_when_all_is_done() -> None:
    items: Queue[int] = Queue()
    items.put(1)
    with CancelScope() as scope:
        attempt = Attempt(blocking.join, items, scope=scope)
        parked(items.all_tasks_done)
        items.get()
        items.task_done()
        assert attempt.ended() is True
        assert blocking.join(items, timeout=0) is True
    assert blocking.join(items) is True


@pytest.mark.parametrize("kind", [queue.SimpleQueue, multiprocessing.Queue, multiprocessing.SimpleQueue])
def test_a_queue_whose_waits_cannot_be_ended_is_refused(kind: Any) -> None:
    items = kind()
    with CancelScope():
        for call in (partial(blocking.get, items), partial(blocking.put, items, 1)):
            with pytest.raises(
                TypeError, match=r"cannot end a wait for a .*Queue; nothing was done.*queue\.Queue"
            ):
                call()
    if hasattr(items, "close"):
        items.close()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="queues can be shut down from Python 3.13 on")
def test_a_queue_that_is_shut_down_wakes_who_waits() -> None:
    kind: Any = Queue
    items, full = kind(1), kind(1)
    full.put(1)
    with CancelScope() as scope:
        getter = Attempt(blocking.get, items, scope=scope)
        putter = Attempt(blocking.put, full, 2, scope=scope)
        parked(items.not_empty)
        parked(full.not_full)
        items.shutdown()
        full.shutdown()
        assert [type(each.ended()).__name__ for each in (getter, putter)] == ["ShutDown", "ShutDown"]
        assert type(Attempt(blocking.get, items, scope=scope).ended()).__name__ == "ShutDown"


def test_a_wait_with_a_scope_stands_in_line_with_plain_ones() -> None:
    items: Queue[int] = Queue()
    plain = threading.Thread(target=items.get)
    plain.start()
    parked(items.not_empty)
    scope = CancelScope.child_of(None)
    ours = Attempt(blocking.get, items, scope=scope)
    parked(items.not_empty, 2)
    scope.cancel()
    assert isinstance(ours.ended(), Cancelled)
    items.put(1)
    plain.join(30)
    assert not plain.is_alive()
