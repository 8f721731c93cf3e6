import contextvars
import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Generator

import pytest

import scale
from intermission.kernel.scope import Cancelled, CancelScope, ScopeHost
from intermission.testing import ManualClock
from scopes import started

ROUNDS = scale.rounds(50, 500)


def test_a_cancel_reaches_everything_below_and_nothing_else(root: CancelScope) -> None:
    middle, sibling = CancelScope.child_of(root), CancelScope.child_of(root)
    leaf = CancelScope.child_of(middle)

    assert middle.cancel("enough", source="caller")
    assert (leaf.cancelled, leaf.reason, leaf.source) == (True, "enough", "caller")
    assert not root.cancelled
    assert not sibling.cancelled
    assert (sibling.reason, sibling.source) == ("", None)


def test_the_first_cause_wins(root: CancelScope) -> None:
    child = CancelScope.child_of(root)
    assert child.cancel("first")
    assert not child.cancel("second")
    assert root.cancel("third")
    assert (child.reason, root.reason) == ("first", "third")


def test_of_many_cancels_at_once_one_is_the_first() -> None:
    for _ in range(ROUNDS):
        scope, first, start = CancelScope.child_of(None), list[int](), threading.Barrier(4)

        def cancel(
            index: int,
            scope: CancelScope = scope,
            first: list[int] = first,
            start: threading.Barrier = start,
        ) -> None:
            start.wait(30)
            if scope.cancel(str(index)):
                first.append(index)

        threads = [threading.Thread(target=cancel, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert [scope.reason] == list(map(str, first))


def test_check_raises_what_no_except_exception_catches(root: CancelScope) -> None:
    root.check()
    root.cancel("enough", source="admin")
    with pytest.raises(Cancelled, match="enough") as caught:
        root.check()
    assert (caught.value.reason, caught.value.source) == ("enough", "admin")
    assert not isinstance(caught.value, Exception)
    assert (str(Cancelled()), str(Cancelled("", "admin"))) == ("cancelled", "cancelled by admin")


def test_check_allocates_nothing(root: CancelScope) -> None:
    check = root.check
    check()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(1000):
            check()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 1000


def test_a_scope_made_below_a_cancelled_one_is_cancelled(root: CancelScope) -> None:
    root.cancel("enough", source="admin")
    child = CancelScope.child_of(root)
    assert (child.cancelled, child.reason, child.source) == (True, "enough", "admin")


def test_a_scope_can_be_linked_later(root: CancelScope) -> None:
    scope = CancelScope.child_of(None)
    scope.link(root)
    root.cancel()
    assert scope.cancelled


def test_a_tree_may_be_deeper_than_the_stack_of_python(root: CancelScope) -> None:
    scopes = [root]
    for _ in range(5 * sys.getrecursionlimit()):
        scopes.append(CancelScope.child_of(scopes[-1]))
    root.cancel()
    assert all(scope.cancelled for scope in scopes)
    while scopes:
        scopes.pop()


def test_a_closed_scope_is_out_of_reach_and_not_kept(root: CancelScope) -> None:
    scope = CancelScope.child_of(root)
    scope.close()
    root.cancel()
    assert not scope.cancelled

    gone = [weakref.ref(scope)]
    del scope
    with CancelScope.child_of(root) as used:
        gone.append(weakref.ref(used))
        used.on_cancel_now(int).remove()
        used.wait(0)
    del used
    assert [reference() for reference in gone] == [None, None]


def test_no_child_slips_through_a_cancel_of_its_parent() -> None:
    for _ in range(ROUNDS):
        parent, start = CancelScope.child_of(None), threading.Barrier(2)

        def cancel(parent: CancelScope = parent, start: threading.Barrier = start) -> None:
            start.wait(30)
            parent.cancel()

        thread = started(cancel)
        start.wait(30)
        children = [CancelScope.child_of(parent) for _ in range(100)]
        thread.join(30)
        assert all(child.cancelled for child in children)


def test_a_scope_made_in_the_block_of_another_is_its_child() -> None:
    assert CancelScope.current() is None
    with CancelScope() as outer:
        assert CancelScope.current() is outer
        with CancelScope() as inner:
            assert CancelScope.current() is inner
            outer.cancel("enough")
            assert inner.cancelled
        assert CancelScope.current() is outer
    assert CancelScope.current() is None


def test_a_scope_made_elsewhere_is_no_child_of_what_is_current_here() -> None:
    with CancelScope() as here:
        seen: list[CancelScope | None] = []
        started(lambda: seen.append(CancelScope.current())).join(30)
        assert seen == [None]
        there = CancelScope.child_of(None)
        here.cancel()
        assert not there.cancelled


def test_cancelled_passes_through_the_block_that_it_belongs_to() -> None:
    def work() -> None:
        with CancelScope() as scope:
            scope.cancel()
            scope.check()

    with pytest.raises(Cancelled):
        work()
    assert CancelScope.current() is None


def test_a_scope_is_entered_once() -> None:
    with CancelScope() as scope, pytest.raises(RuntimeError, match="entered already"):
        scope.__enter__()


def test_a_block_in_a_generator_may_end_where_others_drive_it() -> None:
    def steps() -> Generator[None]:
        with CancelScope():
            yield

    driven = steps()
    contextvars.copy_context().run(next, driven)
    driven.close()
    assert CancelScope.current() is None


def test_a_shielded_scope_goes_on_inside_a_cancelled_one() -> None:
    with CancelScope() as outer:
        with CancelScope(shield=True) as before:
            outer.cancel("enough")
            assert not before.cancelled
            with CancelScope(shield=True) as after, CancelScope() as below:
                assert not below.cancelled
                assert not after.cancelled
                before.cancel()
                assert not after.cancelled
        with CancelScope() as ordinary:
            assert ordinary.cancelled


def test_a_deadline_cancels_with_its_source(root: CancelScope, clock: ManualClock) -> None:
    scope = CancelScope.child_of(root, timeout=30.0)
    below = CancelScope.child_of(scope)
    clock.advance(29.9)
    assert not scope.cancelled
    clock.advance(0.1)
    assert (below.source, below.reason) == ("deadline", "the time limit of 30 s has passed")
    assert not root.cancelled


def test_a_closed_scope_takes_its_deadline_back(
    root: CancelScope, clock: ManualClock, host: ScopeHost
) -> None:
    with CancelScope.child_of(root, timeout=30.0) as scope:
        pass
    clock.advance(31)
    assert not scope.cancelled
    assert host.timer.pending == 0


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_deadline_in_the_past_has_passed(timeout: float) -> None:
    assert CancelScope(timeout=timeout).source == "deadline"


def test_a_deadline_can_be_far_away_and_must_be_a_number() -> None:
    with CancelScope(timeout=float("inf")) as scope:
        assert not scope.cancelled
    with CancelScope() as outer:
        with pytest.raises(ValueError, match="nan"):
            CancelScope(timeout=float("nan"))
        gc.collect()
        outer.cancel()


def test_a_public_deadline_passes_in_real_time() -> None:
    with CancelScope(timeout=0.01) as scope:
        assert scope.wait(30)
        assert scope.source == "deadline"


def test_work_that_outlives_its_runtime_still_has_deadlines(host: ScopeHost, root: CancelScope) -> None:
    host.timer.close()
    with CancelScope.child_of(root, timeout=0.01) as scope:
        assert scope.wait(30)
