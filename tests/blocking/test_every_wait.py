import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from intermission import Cancelled, CancelScope
from intermission.testing import ManualClock
from scopes import hosted
from waiting import WAITS, Attempt, Wait, until_still

PROMPT = 5.0  # seconds, on a machine that is busy with other things; docs/blocking.md has what was measured

every_wait = pytest.mark.parametrize("wait", WAITS, ids=[wait.name for wait in WAITS])
every_timed_wait = pytest.mark.parametrize(
    "wait", [wait for wait in WAITS if wait.in_time is not None], ids=lambda wait: wait.name
)
every_woken_wait = pytest.mark.parametrize(
    "wait", [wait for wait in WAITS if not wait.looks], ids=lambda wait: wait.name
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@every_wait
def test_a_cancel_ends_a_wait_that_has_begun(wait: Wait, stack: ExitStack) -> None:
    waiter = wait.begin(stack)
    scope = CancelScope.child_of(None)
    attempt = Attempt(waiter, scope=scope)
    until_still(attempt.thread)
    began = time.monotonic()
    scope.cancel("enough")
    outcome = attempt.ended()
    assert isinstance(outcome, Cancelled)
    assert outcome.reason == "enough"
    assert attempt.ended_at - began < PROMPT


@every_wait
def test_in_a_cancelled_scope_no_wait_begins_the_second_time_neither(wait: Wait, stack: ExitStack) -> None:
    waiter = wait.begin(stack)
    scope = CancelScope.child_of(None)
    scope.cancel()
    for _ in range(2):
        assert isinstance(Attempt(waiter, scope=scope).ended(), Cancelled)


@every_wait
def test_a_wait_looks_at_the_scope_that_is_current_and_at_those_above(wait: Wait, stack: ExitStack) -> None:
    waiter = wait.begin(stack)
    outer = CancelScope.child_of(None)

    def inside() -> object:
        with outer, CancelScope(), CancelScope():
            return waiter()

    attempt = Attempt(inside)
    until_still(attempt.thread)
    outer.cancel("from above")
    outcome = attempt.ended()
    assert isinstance(outcome, Cancelled)
    assert outcome.reason == "from above"


@every_wait
def test_a_cancel_of_a_scope_below_ends_its_wait_and_leaves_the_one_above(
    wait: Wait, stack: ExitStack
) -> None:
    waiter = wait.begin(stack)
    inner: list[CancelScope] = []

    def inside() -> CancelScope:
        with CancelScope() as outer:
            try:
                with CancelScope() as scope:
                    inner.append(scope)
                    waiter()
            except Cancelled:
                assert not outer.cancelled
            return outer

    attempt = Attempt(inside)
    until_still(attempt.thread)
    inner[0].cancel()
    assert isinstance(attempt.ended(), CancelScope)


@every_wait
def test_a_deadline_ends_a_wait(wait: Wait, stack: ExitStack) -> None:
    waiter, clock = wait.begin(stack), ManualClock()
    with hosted(clock) as host:
        scope = CancelScope.child_of(None, timeout=60, host=host)
        attempt = Attempt(waiter, scope=scope)
        until_still(attempt.thread)
        clock.advance(60)
        outcome = attempt.ended()
    assert isinstance(outcome, Cancelled)
    assert outcome.source == "deadline"


@every_wait
def test_in_a_shield_a_wait_goes_on_and_the_cancel_is_seen_right_after(wait: Wait, stack: ExitStack) -> None:
    waiter, clock = wait.begin(stack), ManualClock()
    with hosted(clock) as host:
        scope = CancelScope.child_of(None, host=host)

        def inside() -> object:
            with scope, scope.shield(60):
                return waiter()

        attempt = Attempt(inside)
        until_still(attempt.thread)
        scope.cancel()
        until_still(attempt.thread)
        assert attempt.thread.is_alive()
        clock.advance(60)  # the longest that a shield may last
        assert isinstance(attempt.ended(), Cancelled)


@every_timed_wait
@pytest.mark.parametrize("timeout", [0.02, 0, -1])
@pytest.mark.parametrize("scoped", [True, False])
def test_a_wait_ends_when_its_time_is_over_as_its_namesake_does(
    wait: Wait, timeout: float, scoped: bool, stack: ExitStack
) -> None:
    waiter = wait.begin(stack)
    scope = CancelScope.child_of(None) if scoped else None
    outcome = Attempt(waiter, scope=scope, timeout=timeout).ended()
    if isinstance(wait.in_time, type):
        assert isinstance(outcome, wait.in_time), outcome
    else:
        assert outcome == wait.in_time


@every_wait
def test_where_a_loop_runs_a_wait_raises_and_names_the_other_way(wait: Wait, stack: ExitStack) -> None:
    waiter = wait.begin(stack)

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"\(\) would freeze the event loop.*to_thread"):
            waiter()

    asyncio.run(main())


@every_wait
def test_a_hundred_waits_end_with_one_cancel(wait: Wait, stack: ExitStack) -> None:
    count = 8 if wait.name in {"run", "popen", "communicate", "wait for a process"} else 100
    scope = CancelScope.child_of(None)
    attempts: list[Attempt] = []
    for _ in range(count):
        waiter = wait.begin(stack)
        attempts.append(Attempt(waiter, scope=scope))
    until_still(*(attempt.thread for attempt in attempts))
    scope.cancel()
    assert {type(attempt.ended()) for attempt in attempts} == {Cancelled}


@every_woken_wait
def test_a_wait_takes_no_thread_and_does_not_wake_up_before_its_cancel(wait: Wait, stack: ExitStack) -> None:
    waiter = wait.begin(stack)
    scope, threads = CancelScope.child_of(None), threading.active_count()
    attempt = Attempt(waiter, scope=scope)
    until_still(attempt.thread)
    before = _switches(attempt.thread)
    threading.Event().wait(0.2)
    assert _switches(attempt.thread) == before
    assert threading.active_count() == threads + 1
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)


def _switches(thread: threading.Thread) -> int:
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])
