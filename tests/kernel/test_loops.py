import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from intermission.kernel.loops import ToolLoops
from intermission.kernel.timer import Timer
from intermission.testing import Gate
from loops import PATIENCE, Ends, answered, foreign, forever, own_threads, this_loop


@pytest.fixture
def loops(timer: Timer) -> Iterator[ToolLoops]:
    loops = ToolLoops(timer)
    yield loops
    assert loops.close(PATIENCE) == 0


def test_an_own_loop_begins_with_the_first_task_and_ends_with_close(timer: Timer) -> None:
    loops, ends = ToolLoops(timer), Ends()
    assert own_threads() == []

    loops.start(this_loop(), ends)
    loops.start(this_loop(), ends)
    (first, _), (second, _) = ends.wait(2)

    assert first is second
    assert own_threads() == ["intermission-loop-1"]
    assert loops.close(PATIENCE) == 0
    assert own_threads() == []
    assert first.is_closed()


def test_a_given_loop_is_used_and_neither_stopped_nor_closed(timer: Timer) -> None:
    ends = Ends()
    with foreign() as loop:
        loops = ToolLoops(timer, loop=loop)
        loops.start(this_loop(), ends)
        assert ends.wait() == [(loop, None)]
        loops.close(PATIENCE)
        answered(loop)

    assert own_threads() == []


def test_the_loop_of_an_async_block_is_used_from_then_on_and_the_own_one_ends(loops: ToolLoops) -> None:
    ends = Ends()
    loops.start(this_loop(), ends)
    [(own, _)] = ends.wait()
    with foreign() as loop:
        loops.use(loop)
        loops.start(this_loop(), ends)
        assert ends.wait(2)[1] == (loop, None)
        assert own is not loop


def test_a_loop_that_was_given_at_the_start_stands(timer: Timer) -> None:
    ends = Ends()
    with foreign() as given, foreign() as other:
        loops = ToolLoops(timer, loop=given)
        loops.use(other)
        loops.start(this_loop(), ends)
        assert ends.wait() == [(given, None)]
        loops.close(PATIENCE)


def test_a_task_has_the_context_variables_that_it_is_given(loops: ToolLoops) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    context = contextvars.Context()
    context.run(who.set, "me")
    ends = Ends()

    async def ask() -> str:
        return who.get()

    loops.start(ask(), ends, context=context)

    assert ends.wait() == [("me", None)]


def test_what_a_task_raises_is_told_and_a_system_exit_ends_no_loop(loops: ToolLoops) -> None:
    ends = Ends()

    async def fail() -> None:
        raise ValueError("no")

    async def leave() -> None:
        raise SystemExit(3)

    for make in (fail, leave, this_loop):
        loops.start(make(), ends)
    (_, first), (_, second), (third, _) = ends.wait(3)

    assert (type(first), type(second)) == (ValueError, SystemExit)
    assert third.is_running()


def test_a_system_exit_of_a_task_that_a_task_has_started_ends_no_own_loop(
    loops: ToolLoops, caplog: pytest.LogCaptureFixture
) -> None:
    ends = Ends()

    async def leave() -> None:
        raise SystemExit(3)

    async def start() -> None:
        await asyncio.wait([asyncio.ensure_future(leave())])

    loops.start(start(), ends)
    assert ends.wait() == [(None, None)]
    loops.start(this_loop(), ends)

    assert ends.wait(2)[1][0].is_running()
    assert "left the loop" in caplog.text
    caplog.clear()


def test_a_cancelled_task_is_told_when_it_has_really_ended(loops: ToolLoops) -> None:
    ends, begun, ending, go = Ends(), threading.Event(), threading.Event(), threading.Event()

    async def stubborn() -> str:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        begun.set()
        try:
            await forever()
        except asyncio.CancelledError:
            ending.set()
            await loop.run_in_executor(None, go.wait, PATIENCE)
            woken.set()
        return "in spite of all"

    task = loops.start(stubborn(), ends)
    assert begun.wait(PATIENCE)
    task.cancel()
    assert ending.wait(PATIENCE)
    assert ends.seen == []
    assert loops.running == 1
    go.set()

    assert ends.wait() == [("in spite of all", None)]


def test_a_task_that_is_cancelled_before_it_begins_never_does(loops: ToolLoops) -> None:
    ends, gate, ran = Ends(), Gate(), list[int]()

    async def block() -> None:
        gate.wait()

    async def run() -> None:
        ran.append(1)

    loops.start(block(), ends)
    gate.arrived()
    loops.start(run(), ends).cancel()
    gate.open()
    errors = [type(error) for _, error in ends.wait(2)]

    assert sorted(errors, key=str) == [type(None), asyncio.CancelledError]
    assert ran == []


def test_a_task_for_a_closed_loop_is_told_so(timer: Timer) -> None:
    loop, ends = asyncio.new_event_loop(), Ends()
    loop.close()
    loops = ToolLoops(timer, loop=loop)

    loops.start(forever(), ends)
    ((_, error),) = ends.wait()

    assert str(error) == "Event loop is closed"
    assert loops.running == 0
    loops.close()


def test_a_task_whose_loop_was_closed_under_it_ends_at_its_cancel(timer: Timer) -> None:
    loop, ends, begun = asyncio.new_event_loop(), Ends(), list[asyncio.Task[Any] | None]()
    loops = ToolLoops(timer, loop=loop)

    async def run() -> None:
        begun.append(asyncio.current_task())
        loop.stop()
        await forever()

    task = loops.start(run(), ends)
    loop.run_forever()
    (left,) = begun
    loop.close()
    assert loops.running == 1
    task.cancel()

    assert isinstance(ends.wait()[0][1], asyncio.CancelledError)
    assert loops.running == 0
    assert left is not None
    left._log_destroy_pending = False  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - it is what is tested
    loops.close()


def test_close_cancels_what_runs_and_takes_no_more(timer: Timer) -> None:
    loops, ends = ToolLoops(timer), Ends()
    loops.start(forever(), ends)

    assert loops.close(PATIENCE) == 0
    assert isinstance(ends.wait()[0][1], asyncio.CancelledError)
    late = forever()
    with pytest.raises(RuntimeError, match="closed"):
        loops.start(late, ends)
    late.close()


def test_close_does_not_wait_for_what_is_stuck_and_says_so(
    timer: Timer, caplog: pytest.LogCaptureFixture
) -> None:
    loops, ends, gate = ToolLoops(timer), Ends(), Gate()

    async def block() -> None:
        gate.wait()

    loops.start(block(), ends)
    gate.arrived()
    assert loops.close(0.0) == 1
    assert "1 async calls did not end with their runner" in caplog.text
    gate.open()

    ends.wait()
    assert loops.close(PATIENCE) == 0


def test_closing_on_the_thread_of_the_loop_does_not_wait_for_itself(timer: Timer) -> None:
    ends = Ends()

    async def main() -> int:
        loops = ToolLoops(timer, loop=asyncio.get_running_loop())
        loops.start(forever(), ends)
        await asyncio.sleep(0)
        left = loops.close(PATIENCE)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return left

    assert asyncio.run(main()) == 1
    assert isinstance(ends.wait()[0][1], asyncio.CancelledError)
