import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from intermission.testing import Gate
from races import at_once
from waiting import Attempt, parked, until_still

ROUNDS = scale.rounds(50, 500)


def condition(future: "Future[Any]") -> Any:
    return future._condition  # to see who waits


def test_without_a_scope_it_is_the_plain_wait() -> None:
    future: Future[int] = Future()
    with pytest.raises(TimeoutError):
        blocking.result(future, timeout=0.001)
    assert blocking.wait_futures([future], timeout=0.001) == (set(), {future})
    future.set_result(7)
    assert blocking.result(future) == 7
    assert blocking.wait_futures([future]) == ({future}, set())


@pytest.mark.parametrize("scoped", [True, False])
def test_what_a_future_comes_to_ends_the_wait(scoped: bool) -> None:
    scope = CancelScope.child_of(None) if scoped else None
    good, bad, given_up = Future[int](), Future[int](), Future[int]()
    attempts = [Attempt(blocking.result, f, scope=scope) for f in (good, bad, given_up)]
    for future in (good, bad, given_up):
        parked(condition(future))
    good.set_result(7)
    bad.set_exception(KeyError("no"))
    given_up.cancel()
    assert [type(attempt.ended()) for attempt in attempts] == [
        int,
        KeyError,
        concurrent.futures.CancelledError,
    ]


def test_giving_up_leaves_the_future_to_others_and_nothing_in_it() -> None:
    future: Future[int] = Future()
    scope = CancelScope.child_of(None)
    one = Attempt(blocking.result, future, scope=scope)
    other = Attempt(blocking.result, future, scope=CancelScope.child_of(None))
    plain = Attempt(future.result)
    parked(condition(future), 3)
    scope.cancel()
    assert isinstance(one.ended(), Cancelled)
    assert not future.done()
    assert len(condition(future)._waiters) == 2
    future.set_result(7)
    assert (other.ended(), plain.ended()) == (7, 7)


@pytest.mark.parametrize("when", [ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION])
def test_giving_up_several_leaves_nothing_in_them(when: str) -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    with CancelScope():
        found = blocking.wait_futures(futures, timeout=0.001, return_when=when)
    assert found == (set(), set(futures))
    assert [len(condition(future)._waiters) for future in futures] == [0, 0, 0]


def test_work_that_has_not_begun_is_cancelled_if_that_is_asked_for_and_only_then() -> None:
    gate = Gate()
    works: list[Callable[[], object]] = [gate.wait, int, int]
    with ThreadPoolExecutor(1) as pool:
        running, kept, dropped = (pool.submit(work) for work in works)
        gate.arrived()
        for future, drop in ((running, True), (kept, False), (dropped, True)):
            with CancelScope(timeout=0.001), pytest.raises(Cancelled):
                blocking.result(future, cancel_unstarted=drop)
        with CancelScope() as scope:
            scope.cancel()
            with pytest.raises(Cancelled):
                blocking.result(running, cancel_unstarted=True)
        assert (running.running(), kept.cancelled(), dropped.cancelled()) == (True, False, True)
        gate.open()
        assert (running.result(30), kept.result(30)) == (None, 0)


def test_a_result_that_meets_the_cancel_is_returned_or_still_in_the_future() -> None:
    for number in range(ROUNDS):
        future: Future[int] = Future()
        scope = CancelScope.child_of(None)
        attempt = Attempt(blocking.result, future, scope=scope)
        at_once(partial(future.set_result, number), scope.cancel)
        assert attempt.ended() == number or isinstance(attempt.outcome, Cancelled)
        assert future.result(0) == number


def test_of_several_the_first_ends_the_wait_or_the_first_that_fails_or_the_last() -> None:
    one, two, three = (Future[int]() for _ in range(3))
    scope, futures = CancelScope.child_of(None), [one, two, three]
    first, failed, whole = (
        Attempt(blocking.wait_futures, futures, return_when=when, scope=scope)
        for when in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED)
    )
    until_still(first.thread, failed.thread, whole.thread)
    one.set_result(1)
    assert first.ended() == ({one}, {two, three})
    until_still(failed.thread, whole.thread)
    two.set_exception(KeyError())
    assert failed.ended() == ({one, two}, {three})
    until_still(whole.thread)
    three.cancel()
    assert whole.ended() == ({one, two, three}, set())


def test_the_first_of_several_that_meets_the_cancel_is_found_or_the_cancel_is() -> None:
    for _ in range(ROUNDS):
        futures: list[Future[int]] = [Future() for _ in range(3)]
        scope = CancelScope.child_of(None)
        attempt = Attempt(blocking.wait_futures, futures, return_when=FIRST_COMPLETED, scope=scope)
        at_once(partial(futures[2].set_result, 1), scope.cancel)
        assert isinstance(attempt.ended(), Cancelled) or attempt.outcome == ({futures[2]}, set(futures[:2]))


def test_futures_of_another_kind_and_unknown_ends_are_refused() -> None:
    loop = asyncio.new_event_loop()
    other: Any = loop.create_future()
    loop.close()
    with pytest.raises(TypeError, match=r"concurrent\.futures"):
        blocking.result(other)
    with pytest.raises(TypeError, match=r"concurrent\.futures"):
        blocking.wait_futures([other])
    with pytest.raises(ValueError, match="FIRST_COMPLETED"):
        blocking.wait_futures([], return_when="soon")
