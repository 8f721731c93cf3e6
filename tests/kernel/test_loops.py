import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from intermission.kernel.loops import ToolLoops
from intermission.kernel.timer import Timer
from intermission.testing import Gate, ManualClock

PATIENCE = 30.0


class Ends:
    """Keeps what tasks ended with, and lets the test wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: list[tuple[Any, BaseException | None]] = []

    def __call__(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            self.seen.append((value, error))
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[tuple[Any, BaseException | None]]:
        """Wait for so many ends."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, PATIENCE)
            return list(self.seen)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timer(clock: ManualClock) -> Iterator[Timer]:
    timer = Timer(clock)
    yield timer
    timer.close()


@contextmanager
def foreign() -> Generator[asyncio.AbstractEventLoop]:
    """A loop that somebody else runs, on a thread of his own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@pytest.fixture
def loops(timer: Timer) -> Iterator[ToolLoops]:
    loops = ToolLoops(timer)
    yield loops
    assert loops.close(PATIENCE) == 0


def answered(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the loop has come to all that was handed in before."""

    async def nothing() -> None: ...

    asyncio.run_coroutine_threadsafe(nothing(), loop).result(PATIENCE)


async def this_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def forever() -> None:
    await asyncio.Event().wait()


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("intermission-loop")]


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
    with foreign() as loop:
        loops.use(loop)
        loops.start(this_loop(), ends)
        (own, _), second = ends.wait(2)

        assert second == (loop, None)
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


class TestAStuckLoop:
    def test_is_left_alone_and_what_comes_next_gets_a_fresh_one(
        self, loops: ToolLoops, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        ends, gate = Ends(), Gate()

        async def block() -> asyncio.AbstractEventLoop:
            gate.wait()
            return asyncio.get_running_loop()

        loops.start(block(), ends, name="blocker")
        gate.arrived()
        clock.advance(1)
        clock.advance(1)
        loops.start(this_loop(), ends)
        ((fresh, _),) = ends.wait()
        gate.open()
        old = ends.wait(2)[1][0]

        assert "has not answered for 1.0 s: blocker blocks it." in caplog.text
        assert old is not fresh

    def test_gives_what_it_has_not_begun_to_the_fresh_one(self, loops: ToolLoops, clock: ManualClock) -> None:
        ends, gate = Ends(), Gate()

        async def block() -> None:
            gate.wait()

        loops.start(block(), ends)
        gate.arrived()
        loops.start(this_loop(), ends)
        clock.advance(1)
        clock.advance(1)
        ((fresh, error),) = ends.wait()
        gate.open()
        ends.wait(2)

        assert error is None
        assert fresh.is_running()

    def test_goes_on_with_what_it_has_begun_when_it_is_free_again_and_then_ends(
        self, loops: ToolLoops, clock: ManualClock
    ) -> None:
        ends, gate, loop_of_first = Ends(), Gate(), list[asyncio.AbstractEventLoop]()
        woken, begun = asyncio.Event(), threading.Event()

        async def first() -> str:
            loop_of_first.append(asyncio.get_running_loop())
            begun.set()
            await woken.wait()
            return "awake"

        async def block() -> None:
            gate.wait()
            woken.set()

        loops.start(first(), ends)
        assert begun.wait(PATIENCE)
        loops.start(block(), ends)
        gate.arrived()
        clock.advance(1)
        clock.advance(1)
        (thread,) = [one for one in threading.enumerate() if one.name == "intermission-loop-1"]
        gate.open()

        assert ("awake", None) in ends.wait(2)
        thread.join(PATIENCE)
        assert loop_of_first[0].is_closed()

    def test_that_answers_is_not_left(self, loops: ToolLoops, clock: ManualClock) -> None:
        ends, loop_of = Ends(), Ends()
        task = loops.start(forever(), ends)
        for _ in range(3):
            loops.start(this_loop(), loop_of)
            loop: Any = loop_of.wait(len(loop_of.seen))[-1][0] if loop_of.seen else loop_of.wait()[0][0]
            clock.advance(1)
            answered(loop)
        task.cancel()
        ends.wait()

        assert own_threads() == ["intermission-loop-1"]

    def test_of_the_users_is_reported_once_until_it_answers(
        self, timer: Timer, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        ends, gate = Ends(), Gate()

        async def block() -> None:
            gate.wait()

        with foreign() as loop:
            loops = ToolLoops(timer, loop=loop)
            loops.start(block(), ends)
            gate.arrived()
            for _ in range(5):
                clock.advance(1)
            gate.open()
            ends.wait()
            loops.close(PATIENCE)

        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert "All that runs on it waits." in record.getMessage()
        assert own_threads() == []

    def test_is_asked_only_while_tasks_run(self, loops: ToolLoops, timer: Timer, clock: ManualClock) -> None:
        ends = Ends()
        loops.start(this_loop(), ends)
        ends.wait()
        for _ in range(1000):
            if loops.running == 0:
                break
            threading.Event().wait(0.001)
        clock.advance(1)

        assert timer.pending == 0


class TestTheStartUp:
    def test_is_awaited_once_on_the_loop_before_the_first_task(self, timer: Timer) -> None:
        order, ends = list[Any](), Ends()

        async def start_up() -> None:
            await asyncio.sleep(0)
            order.append(asyncio.get_running_loop())

        async def task() -> None:
            order.append("task")

        loops = ToolLoops(timer, on_startup=start_up)
        assert order == []
        loops.start(task(), ends)
        loops.start(task(), ends)
        loops.start(this_loop(), ends)
        loop = ends.wait(3)[2][0]

        assert order == [loop, "task", "task"]
        loops.close(PATIENCE)

    def test_that_fails_fails_who_waits_for_it_and_is_tried_again(self, timer: Timer) -> None:
        tries, ends = list[int](), Ends()

        async def start_up() -> None:
            tries.append(1)
            if len(tries) == 1:
                raise ValueError("not yet")

        loops = ToolLoops(timer, on_startup=start_up)
        loops.start(this_loop(), ends)
        assert isinstance(ends.wait()[0][1], ValueError)
        loops.start(this_loop(), ends)

        assert ends.wait(2)[1][1] is None
        assert len(tries) == 2
        loops.close(PATIENCE)

    def test_goes_on_when_the_task_that_waits_for_it_is_cancelled(self, timer: Timer) -> None:
        began, ends, go = threading.Event(), Ends(), asyncio.Event()
        tries, loop_of = list[int](), list[asyncio.AbstractEventLoop]()

        async def start_up() -> None:
            tries.append(1)
            loop_of.append(asyncio.get_running_loop())
            began.set()
            await go.wait()

        loops = ToolLoops(timer, on_startup=start_up)
        first = loops.start(this_loop(), ends)
        loops.start(this_loop(), ends)
        assert began.wait(PATIENCE)
        first.cancel()
        ends.wait()
        set_it: Callable[[], None] = go.set
        loop_of[0].call_soon_threadsafe(set_it)

        assert ends.wait(2)[1] == (loop_of[0], None)
        assert tries == [1]
        loops.close(PATIENCE)

    def test_has_the_context_of_who_made_the_loops_and_not_of_a_task(self, timer: Timer) -> None:
        who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
        seen, ends = list[str](), Ends()

        async def start_up() -> None:
            seen.append(who.get())

        loops = ToolLoops(timer, on_startup=start_up)
        token = who.set("a run")
        loops.start(this_loop(), ends)
        ends.wait()
        who.reset(token)

        assert seen == ["nobody"]
        loops.close(PATIENCE)
