import threading

import pytest

import scale
from intermission import CancelScope
from intermission.blocking.aborting import Aborter
from intermission.testing import Gate
from waiting import Attempt, until_still

ROUNDS = scale.rounds(20, 200)


def test_an_action_is_called_again_until_the_end() -> None:
    scope, calls = CancelScope.child_of(None), threading.Semaphore(0)
    aborter = Aborter(scope, calls.release, again=0.001)
    scope.cancel()
    for _ in range(3):
        assert calls.acquire(timeout=30)
    assert aborter.leave() is True


def test_without_a_cancel_no_action_is_called_and_none_after_the_end() -> None:
    scope, calls = CancelScope.child_of(None), list[int]()
    aborter = Aborter(scope, lambda: calls.append(1), again=0.001)
    assert aborter.leave() is False
    scope.cancel()
    assert calls == []


def test_the_end_waits_for_an_action_that_runs_and_none_comes_after_it() -> None:
    for _ in range(ROUNDS):
        scope, gate, calls = CancelScope.child_of(None), Gate(), list[int]()

        def act(calls: list[int] = calls, gate: Gate = gate) -> None:
            calls.append(1)
            gate.wait()

        aborter = Aborter(scope, act, again=0.0)
        canceller = Attempt(scope.cancel)
        gate.arrived()
        leaving = Attempt(aborter.leave)
        until_still(leaving.thread)
        gate.open()
        assert leaving.ended() is True
        seen = len(calls)
        assert canceller.ended() is True
        threading.Event().wait(0.01)
        assert len(calls) == seen


def test_an_action_that_raises_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    scope = CancelScope.child_of(None)

    def fail() -> None:
        raise OSError("no")

    aborter = Aborter(scope, fail, again=0.001)
    scope.cancel()
    assert aborter.leave() is True
