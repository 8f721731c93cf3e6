import multiprocessing
import threading
from contextlib import suppress

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from races import at_once
from waiting import Attempt, parked, until_still

ROUNDS = scale.rounds(50, 500)


def test_without_a_scope_it_is_the_plain_wait() -> None:
    lock = threading.Lock()
    assert blocking.acquire(lock)
    assert not blocking.acquire(lock, timeout=0.001)
    with pytest.raises(TimeoutError, match="not taken"), blocking.locked(lock, timeout=0):
        raise AssertionError("it was not free")
    lock.release()
    with blocking.locked(lock):
        assert lock.locked()
    assert not lock.locked()


def test_a_lock_is_held_in_the_block_and_free_after_it_whatever_happens_in_it() -> None:
    lock = threading.BoundedSemaphore(1)
    with CancelScope():
        with suppress(KeyError), blocking.locked(lock):
            assert not lock.acquire(blocking=False)
            raise KeyError
        assert lock.acquire(blocking=False)


@pytest.mark.parametrize("kind", [threading.Lock, multiprocessing.Lock, lambda: threading.Semaphore(1)])
def test_a_lock_that_is_given_back_wakes_who_waits_with_a_scope(kind: type[threading.Lock]) -> None:
    lock = kind()
    lock.acquire()
    attempt = Attempt(blocking.acquire, lock, scope=CancelScope.child_of(None))
    until_still(attempt.thread)
    lock.release()
    assert attempt.ended() is True
    lock.release()


def test_a_reentrant_lock_is_taken_again_by_its_owner() -> None:
    lock = threading.RLock()
    with CancelScope(), blocking.locked(lock), blocking.locked(lock):
        pass
    assert Attempt(lock.acquire, blocking=False).ended() is True


@pytest.mark.parametrize("kind", [threading.Lock, lambda: threading.BoundedSemaphore(1)])
def test_a_lock_that_meets_the_cancel_is_held_exactly_if_nothing_was_raised(
    kind: type[threading.Lock],
) -> None:
    for _ in range(ROUNDS):
        lock, scope = kind(), CancelScope.child_of(None)
        lock.acquire()
        attempt = Attempt(blocking.acquire, lock, scope=scope)
        at_once(lock.release, scope.cancel)
        outcome = attempt.ended()
        assert outcome is True or isinstance(outcome, Cancelled)
        assert lock.acquire(blocking=False) == isinstance(outcome, Cancelled)
        lock.release()


def test_a_lock_that_is_got_as_the_cancel_comes_is_given_back() -> None:
    scope = CancelScope.child_of(None)

    class CancelledMeanwhile:
        held = 0

        def acquire(self, blocking: bool = True, timeout: float = -1, /) -> bool:
            scope.cancel()
            self.held += 1
            return True

        def release(self) -> None:
            self.held -= 1

    lock = CancelledMeanwhile()
    with pytest.raises(Cancelled):
        blocking.acquire(lock, scope=scope)
    assert lock.held == 0


def test_a_permit_that_meets_the_cancel_of_one_of_two_goes_to_the_other() -> None:
    for _ in range(ROUNDS):
        semaphore = threading.Semaphore(0)
        inner = vars(semaphore)["_cond"]
        scope, other_scope = CancelScope.child_of(None), CancelScope.child_of(None)
        one = Attempt(blocking.acquire, semaphore, scope=scope)
        parked(inner)
        other = Attempt(blocking.acquire, semaphore, scope=other_scope)
        parked(inner, 2)
        at_once(semaphore.release, scope.cancel)
        if not isinstance(one.ended(), Cancelled):
            assert one.outcome is True
            semaphore.release()
        assert other.ended() is True
        assert not semaphore.acquire(blocking=False)
