import contextvars
import logging
import threading
from functools import partial

import pytest

import scale
from intermission.kernel.scope import Cancelled, CancelScope, ScopeHost
from intermission.testing import Gate
from scopes import settled, started

ROUNDS = scale.rounds(50, 500)


def test_a_users_hook_runs_once_on_a_thread_of_its_own_with_its_context(
    root: CancelScope, host: ScopeHost
) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    seen: list[tuple[str, str]] = []
    root.on_cancel(lambda: seen.append((threading.current_thread().name, variable.get())))
    root.cancel()
    root.cancel()
    settled(host)
    assert seen == [("intermission-worker-1", "set")]


def test_a_hook_on_a_cancelled_scope_runs_at_once(root: CancelScope, host: ScopeHost) -> None:
    ran: list[str] = []
    root.cancel()
    root.on_cancel_now(lambda: ran.append("internal"))
    assert ran == ["internal"]
    root.on_cancel(lambda: ran.append("user's"))
    settled(host)
    assert ran == ["internal", "user's"]


def test_a_hook_that_blocks_delays_neither_the_canceller_nor_another_hook(
    root: CancelScope, host: ScopeHost
) -> None:
    gate, other = Gate(), threading.Event()
    root.on_cancel(gate.wait)
    root.on_cancel(other.set)
    root.cancel()
    gate.arrived()
    assert other.wait(30)
    gate.open()
    settled(host)


@pytest.mark.parametrize("error", [ValueError, Cancelled])
def test_a_hook_that_raises_is_logged_and_costs_no_other(
    root: CancelScope, host: ScopeHost, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise error

    root.on_cancel(fail)
    root.on_cancel_now(fail)
    root.on_cancel(lambda: ran.append("user's"))
    root.on_cancel_now(lambda: ran.append("internal"))
    root.cancel()
    settled(host)
    assert sorted(ran) == ["internal", "user's"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_beyond_the_bound_of_stuck_hooks_one_is_rejected_and_the_canceller_freed(
    root: CancelScope, host: ScopeHost, caplog: pytest.LogCaptureFixture
) -> None:
    gate, ran = Gate(), list[int]()
    for _ in range(4):
        root.on_cancel(gate.wait)
    root.on_cancel(lambda: ran.append(1))
    root.cancel()
    gate.arrived(4)
    host.timer.poll()
    assert "too many are stuck" in caplog.text
    gate.open()
    settled(host)
    assert ran == []


def test_a_hook_of_a_closed_runtime_is_rejected_and_logged(
    root: CancelScope, host: ScopeHost, caplog: pytest.LogCaptureFixture
) -> None:
    host.workers.close()
    root.on_cancel(int)
    root.cancel()
    host.timer.poll()
    host.timer.poll()
    assert "the runtime is closed" in caplog.text


def test_a_removed_hook_does_not_run(root: CancelScope, host: ScopeHost) -> None:
    ran: list[str] = []
    handles = [root.on_cancel(lambda: ran.append("user's")), root.on_cancel_now(lambda: ran.append("ours"))]
    assert [handle.remove() for handle in handles] == [True, True]
    root.cancel()
    settled(host)
    assert ran == []

    late = root.on_cancel_now(int)
    assert not late.remove()


def test_an_internal_hook_runs_on_the_cancellers_thread_before_cancel_returns(root: CancelScope) -> None:
    child, threads = CancelScope.child_of(root), list[threading.Thread]()
    child.on_cancel_now(lambda: threads.append(threading.current_thread()))
    root.cancel()
    assert threads == [threading.current_thread()]


def test_a_hook_may_read_cancel_and_change_its_scope(root: CancelScope) -> None:
    ran: list[str] = []

    def hook() -> None:
        ran.append(root.reason)
        assert not root.cancel("again")
        root.on_cancel_now(lambda: ran.append("added"))
        handle.remove()
        with CancelScope.child_of(root) as child:
            assert child.cancelled
        assert root.wait(1)

    handle = root.on_cancel_now(hook)
    root.on_cancel_now(lambda: ran.append("last"))
    root.cancel("first")
    assert sorted(ran) == ["added", "first", "last"]


def test_hooks_that_cancel_each_others_scopes_on_two_threads_do_not_block() -> None:
    for _ in range(ROUNDS):
        one, other = CancelScope.child_of(None), CancelScope.child_of(None)
        one.on_cancel_now(other.cancel)
        other.on_cancel_now(one.cancel)
        start = threading.Barrier(2)

        def cancel(scope: CancelScope, start: threading.Barrier = start) -> None:
            start.wait(30)
            scope.cancel()

        threads = [threading.Thread(target=cancel, args=(scope,)) for scope in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert one.cancelled
        assert other.cancelled


def test_a_hook_that_is_added_while_its_scope_is_cancelled_runs_exactly_once() -> None:
    for _ in range(ROUNDS):
        scope, ran, start = CancelScope.child_of(None), list[int](), threading.Barrier(3)

        def cancel(scope: CancelScope = scope, start: threading.Barrier = start) -> None:
            start.wait(30)
            scope.cancel()

        threads = [started(cancel) for _ in range(2)]
        start.wait(30)
        for number in range(100):
            scope.on_cancel_now(partial(ran.append, number))
        for thread in threads:
            thread.join(30)
        assert sorted(ran) == list(range(100))


def test_a_hook_is_either_removed_or_run() -> None:
    for _ in range(ROUNDS):
        scope, ran, start = CancelScope.child_of(None), list[int](), threading.Barrier(2)
        handles = [scope.on_cancel_now(partial(ran.append, number)) for number in range(50)]

        def cancel(scope: CancelScope = scope, start: threading.Barrier = start) -> None:
            start.wait(30)
            scope.cancel()

        thread = started(cancel)
        start.wait(30)
        removed = [number for number, handle in enumerate(handles) if handle.remove()]
        thread.join(30)
        assert sorted(ran + removed) == list(range(50))
