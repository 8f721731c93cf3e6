import asyncio
import sys
import threading

import pytest

import scale
import tree
from intermission.kernel.scope import Cancelled, CancelScope, ScopeHost
from intermission.testing import ManualClock
from scopes import started

ROUNDS = scale.rounds(50, 500)


def test_wait_returns_whether_the_scope_is_cancelled(root: CancelScope, clock: ManualClock) -> None:
    assert root.wait(0) is False
    assert root.wait(-1) is False
    root.cancel()
    assert root.wait() is True


@pytest.mark.parametrize("timeout", [None, 1e300, float("inf"), 30.0])
def test_a_cancel_wakes_who_waits(timeout: float | None) -> None:
    for _ in range(ROUNDS):
        scope, woken = CancelScope.child_of(None), list[bool]()

        def wait(scope: CancelScope = scope, woken: list[bool] = woken) -> None:
            woken.append(scope.wait(timeout))

        thread = started(wait)
        scope.cancel()
        thread.join(30)
        assert woken == [True]


def test_a_cancel_wakes_who_sleeps(root: CancelScope) -> None:
    raised: list[Cancelled] = []

    def sleep() -> None:
        try:
            root.sleep(3600)
        except Cancelled as error:
            raised.append(error)

    thread = started(sleep)
    root.cancel("enough")
    thread.join(30)
    assert [error.reason for error in raised] == ["enough"]


def test_a_sleep_follows_the_clock_of_its_runtime(
    root: CancelScope, clock: ManualClock, host: ScopeHost
) -> None:
    ended = threading.Event()

    def sleep() -> None:
        root.sleep(3600)
        ended.set()

    thread = started(sleep)
    while host.timer.pending == 0:
        host.timer.poll()
    assert not ended.is_set()
    clock.advance(3600)
    thread.join(30)
    assert ended.is_set()


def test_without_a_cancel_a_sleep_ends_by_itself() -> None:
    scope = CancelScope.child_of(None)
    scope.sleep(0.001)
    scope.sleep(-1)
    assert not scope.cancelled


def test_where_a_loop_runs_a_wait_raises_and_names_the_other_way(root: CancelScope) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"wait\(\).*asleep"):
            root.wait(0)
        with pytest.raises(RuntimeError, match="asleep"):
            root.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [3600.0, float("inf")])
def test_a_cancel_from_another_thread_wakes_who_sleeps_in_a_loop(seconds: float) -> None:
    async def main() -> str:
        scope = CancelScope.child_of(None)
        sleeping = asyncio.ensure_future(scope.asleep(seconds))
        await asyncio.sleep(0)
        thread = started(lambda: scope.cancel("enough"))
        try:
            await sleeping
        except Cancelled as error:
            thread.join(30)
            return error.reason
        return "slept"

    assert asyncio.run(main()) == "enough"


def test_a_sleep_in_a_loop_ends_by_itself_or_with_its_task_and_leaves_nothing() -> None:
    async def main() -> None:
        scope = CancelScope.child_of(None)
        await scope.asleep(0.001)
        await scope.asleep(-1)
        sleeping = asyncio.ensure_future(scope.asleep(3600))
        await asyncio.sleep(0)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        scope.cancel()
        with pytest.raises(Cancelled):
            await scope.asleep(0)

    asyncio.run(main())


def test_a_sleep_in_a_loop_follows_the_clock_of_its_runtime(root: CancelScope, clock: ManualClock) -> None:
    async def main() -> None:
        sleeping = asyncio.ensure_future(root.asleep(3600))
        await asyncio.sleep(0)
        assert not sleeping.done()
        await asyncio.to_thread(clock.advance, 3600)
        await sleeping

    asyncio.run(main())


def test_the_current_scope_of_a_task_is_its_own() -> None:
    async def inner() -> CancelScope | None:
        with CancelScope() as scope:
            await asyncio.sleep(0)
            assert CancelScope.current() is scope
            return scope

    async def main() -> None:
        with CancelScope() as outer:
            one, other = await asyncio.gather(inner(), inner())
            assert one is not other
            assert CancelScope.current() is outer

    asyncio.run(main())


FORK = """
import os, sys, threading, warnings
from intermission.kernel.scope import CancelScope
warnings.simplefilter("ignore")
with CancelScope(timeout=1000) as outer:
    done = threading.Event()
    other = CancelScope()
    other.on_cancel(done.set)
    other.cancel()
    assert done.wait(30)
    if os.fork() == 0:
        done = threading.Event()
        with CancelScope(timeout=0.01) as scope:
            scope.on_cancel(done.set)
            print(scope.wait(30), done.wait(30), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def test_a_forked_child_may_use_scopes_of_its_own() -> None:
    finished = tree.run(sys.executable, "-c", FORK, timeout=60)
    finished.check()
    assert finished.output == "True True\n"
