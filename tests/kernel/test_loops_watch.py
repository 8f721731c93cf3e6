import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from intermission.kernel.loops import ToolLoops
from intermission.kernel.timer import Timer
from intermission.testing import Gate, ManualClock
from loops import PATIENCE, Ends, answered, foreign, forever, own_threads, this_loop


@pytest.fixture
def loops(timer: Timer) -> Iterator[ToolLoops]:
    loops = ToolLoops(timer)
    yield loops
    assert loops.close(PATIENCE) == 0


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
