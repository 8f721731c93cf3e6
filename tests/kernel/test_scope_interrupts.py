import gc
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest

import scale
from intermission.kernel.scope import CancelScope, ScopeHost
from interrupts import at_each_step, interrupt
from scopes import settled, started

ROUNDS = scale.rounds(50, 500)


def test_after_an_interrupt_at_any_step_a_repeated_cancel_does_the_rest(host: ScopeHost) -> None:
    scopes: list[CancelScope] = []
    ran: list[str] = []

    def prepare() -> Callable[[], object]:
        scopes[:] = [CancelScope.child_of(None, host=host)]
        scopes.append(CancelScope.child_of(scopes[0]))
        scopes.append(CancelScope.child_of(scopes[1]))
        ran.clear()
        for index, scope in enumerate(scopes):
            scope.on_cancel_now(partial(ran.append, f"internal {index}"))
        scopes[1].on_cancel(lambda: ran.append("user's"))
        return scopes[0].cancel

    steps = 0
    for steps in at_each_step(prepare, interrupt):
        scopes[0].cancel()
        assert all(scope.cancelled for scope in scopes)
        settled(host)
        # An internal hook that was interrupted right before its end was noted has run again; no other has.
        assert set(ran) == {"internal 0", "internal 1", "internal 2", "user's"}, steps
        assert len(ran) - len(set(ran)) <= 1
        assert ran.count("user's") == 1
    assert steps > 200


@pytest.mark.parametrize("name", ["wait", "hook", "child", "shield", "cancel", "close"])
def test_a_handler_may_cancel_a_scope_at_any_step_of_its_methods(name: str, host: ScopeHost) -> None:
    scopes: list[CancelScope] = []
    ran: list[str] = []

    def shield() -> None:
        with scopes[0].shield():
            scopes[0].on_cancel_now(lambda: ran.append("hook"))

    work: dict[str, Callable[[], object]] = {
        "wait": lambda: ran.append("hook" if scopes[0].wait(0.0) or scopes[0].cancelled else "missed"),
        "hook": lambda: scopes[0].on_cancel_now(lambda: ran.append("hook")),
        "child": lambda: CancelScope.child_of(scopes[0]).on_cancel_now(lambda: ran.append("hook")),
        "shield": shield,
        "cancel": lambda: (scopes[0].on_cancel_now(lambda: ran.append("hook")), scopes[0].cancel()),
        "close": lambda: CancelScope.child_of(scopes[0]).close(),
    }

    def prepare() -> Callable[[], object]:
        scopes[:] = [CancelScope.child_of(None, host=host)]
        ran.clear()
        return work[name]

    steps = 0
    for steps in at_each_step(prepare, lambda: scopes[0].cancel("handler")):
        assert scopes[0].cancelled
        if name == "wait":
            assert len(ran) == 1
        elif name != "close":
            assert ran == ["hook"], steps
    assert steps > 20


def test_a_shield_that_begins_at_any_step_of_a_cancel_keeps_what_it_saw(host: ScopeHost) -> None:
    scopes: list[CancelScope] = []
    inside: list[tuple[AbstractContextManager[None], bool]] = []

    def prepare() -> Callable[[], object]:
        scopes[:] = [CancelScope.child_of(None, host=host)]
        return scopes[0].cancel

    def begin() -> None:
        shield = scopes[0].shield()
        shield.__enter__()
        inside[:] = [(shield, scopes[0].cancelled)]

    rounds = 0
    for _ in at_each_step(prepare, begin):
        rounds += 1
        shield, seen = inside[0]
        assert scopes[0].cancelled == seen
        shield.__exit__(None, None, None)
        assert scopes[0].cancelled
    assert rounds > 50


def test_a_signal_handler_may_cancel_what_its_thread_waits_for() -> None:
    scope = CancelScope.child_of(None)

    def handler(*_: object) -> None:
        scope.cancel("signal")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for _ in range(ROUNDS):
            scope = CancelScope.child_of(None)
            thread = started(partial(signal.pthread_kill, threading.get_ident(), signal.SIGUSR1))
            assert scope.wait(30)
            thread.join(30)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_finaliser_may_cancel_a_scope_wherever_it_fires() -> None:
    scope = CancelScope.child_of(None)

    class Dropped:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            scope.cancel("dropped")

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(ROUNDS):
            scope = CancelScope.child_of(None)
            Dropped()
            while not scope.cancelled:
                with CancelScope.child_of(scope) as child, child.shield():
                    child.on_cancel_now(int).remove()
    finally:
        gc.set_threshold(*before)
