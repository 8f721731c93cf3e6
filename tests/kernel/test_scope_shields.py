import threading

import pytest

import scale
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.testing import ManualClock
from scopes import started

ROUNDS = scale.rounds(50, 500)


def test_a_cancel_within_a_shield_is_seen_right_after(root: CancelScope) -> None:
    child, ran = CancelScope.child_of(root), list[str]()
    child.on_cancel_now(lambda: ran.append("hook"))
    with root.shield():
        assert root.cancel("enough")
        assert not root.cancel("again")
        root.check()
        root.sleep(0)
        assert (root.cancelled, child.cancelled, root.reason, ran) == (False, False, "", [])
    assert (root.cancelled, child.cancelled, root.reason, ran) == (True, True, "enough", ["hook"])
    with pytest.raises(Cancelled):
        root.check()


def test_a_cancel_from_above_stops_at_a_shield_and_reaches_the_others(root: CancelScope) -> None:
    shielded, sibling = CancelScope.child_of(root), CancelScope.child_of(root)
    with shielded.shield():
        root.cancel("enough")
        assert sibling.cancelled
        assert not shielded.cancelled
    assert shielded.reason == "enough"


def test_a_shield_holds_no_longer_than_its_bound(root: CancelScope, clock: ManualClock) -> None:
    ran: list[str] = []
    root.on_cancel_now(lambda: ran.append("hook"))
    with root.shield(5.0):
        clock.advance(2)
        root.cancel()
        clock.advance(2.9)
        assert not root.cancelled
        clock.advance(0.2)
        assert root.cancelled
        assert ran == ["hook"]


def test_a_shield_whose_bound_has_passed_stops_no_cancel(root: CancelScope, clock: ManualClock) -> None:
    with root.shield(5.0):
        clock.advance(5.1)
        root.cancel()
        assert root.cancelled


def test_a_shield_hides_no_cancel_that_was_there_before(root: CancelScope) -> None:
    root.cancel()
    with root.shield():
        assert root.cancelled


def test_of_two_shields_the_last_one_ends_it(root: CancelScope) -> None:
    with root.shield():
        with root.shield():
            root.cancel()
        assert not root.cancelled
    assert root.cancelled


def test_a_shield_that_an_exception_leaves_is_gone(root: CancelScope) -> None:
    def work() -> None:
        with root.shield():
            root.cancel()
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert root.cancelled


def test_within_a_shield_a_cancel_never_becomes_visible() -> None:
    for _ in range(ROUNDS):
        scope, start = CancelScope.child_of(None), threading.Barrier(2)

        def cancel(scope: CancelScope = scope, start: threading.Barrier = start) -> None:
            start.wait(30)
            scope.cancel()

        thread = started(cancel)
        start.wait(30)
        while True:
            with scope.shield():
                seen = scope.cancelled
                later = [scope.cancelled for _ in range(50)]
            assert set(later) == {seen}
            if seen:
                break
        thread.join(30)
