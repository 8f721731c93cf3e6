"""What the code inside a call is told of who cancelled it, for the run and for the call alone."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from apps import KEY, app_with
from async_gates import AsyncGate
from intermission import Cancelled, CancelSource, Run, RunConfig, Runner, RunStatus, ToolContext
from intermission.config import ToolExecution
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE

OVERLAPPING = [ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE]


class Told:
    """Tools that wait until they are cancelled, and note by whom."""

    def __init__(self) -> None:
        self.begun, self.sources = Gate(), list[tuple[str, str | None]]()
        self.begun.open()

    def in_thread(self, tool_context: ToolContext) -> None:
        """Wait in a thread."""
        self.begun.wait()
        try:
            tool_context.cancellation.sleep(3600)
        except Cancelled as cancelled:
            self.sources.append(("thread", cancelled.source))
            raise

    async def on_loop(self, tool_context: ToolContext) -> None:
        """Wait on the loop."""
        self.begun.wait()
        try:
            await tool_context.cancellation.asleep(3600)
        except Cancelled as cancelled:
            self.sources.append(("loop", cancelled.source))
            raise

    async def awaits(self, tool_context: ToolContext) -> None:
        """Await something that knows nothing of scopes."""
        self.begun.wait()
        try:
            await asyncio.Event().wait()
        finally:
            self.sources.append(("task", tool_context.cancellation.source))


class Bench:
    """A run with one call that waits, and all that can cancel it."""

    def __init__(self, stack: ExitStack, tool: str) -> None:
        self.told, self.clock, self.block = Told(), ManualClock(), ExitStack()
        model = ScriptedModel(calls((tool, {})), default="ok")
        self.runner = stack.enter_context(
            Runner(app_with(model, getattr(self.told, tool)), log=MemoryEventLog(), clock=self.clock)
        )
        config = RunConfig(timeout=10, tool_timeout=5)
        self.run: Run = self.runner.run(**KEY, message="hi", config=config)
        self.block.enter_context(self.run)
        self.told.begun.arrived()

    def cancel_call(self) -> None:
        """Give up the call."""
        (call,) = self.runner.sessions.events(**KEY)[-1].function_calls
        assert self.run.cancel_call(call.id)

    def expire(self) -> None:
        """Let the run's time pass, in one move, in which the limit of the call passes, too."""
        self.clock.advance(10)


CAUSES: dict[str, tuple[Callable[[Bench], object], CancelSource]] = {
    "run.cancel": (lambda bench: bench.run.cancel(), CancelSource.CALLER),
    "cancel by key": (lambda bench: bench.runner.cancel(**KEY), CancelSource.ADMIN),
    "left block": (lambda bench: bench.block.close(), CancelSource.CONSUMER_LOST),
    "close": (lambda bench: bench.runner.close(0), CancelSource.SHUTDOWN),
    "cancel_call": (Bench.cancel_call, CancelSource.CALLER),
    "limit of the call": (lambda bench: bench.clock.advance(5), CancelSource.DEADLINE),
    "limit of the run": (Bench.expire, CancelSource.DEADLINE),
}


@pytest.mark.parametrize("tool", ["in_thread", "on_loop", "awaits"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_call_is_told_who_cancelled_it_or_its_run(cause: str, tool: str) -> None:
    cancel, source = CAUSES[cause]
    with ExitStack() as stack:
        bench = Bench(stack, tool)
        cancel(bench)
        bench.run.result(PATIENCE)
        assert bench.run.wait_terminated(PATIENCE)
        bench.block.close()
    assert [found for _, found in bench.told.sources] == [source]


@pytest.mark.parametrize("mode", OVERLAPPING)
def test_the_siblings_of_a_call_that_fails_the_run_are_told_sibling_failure(mode: ToolExecution) -> None:
    told, fails, over = Told(), AsyncGate(), threading.Event()

    async def fail() -> None:
        await fails.wait()
        raise ValueError("no")

    turn = calls(("fail", {}), ("on_loop", {}), ("awaits", {}), ("in_thread", {}))
    model = ScriptedModel(turn, "again")
    tools = (fail, told.on_loop, told.awaits, told.in_thread)
    with Runner(app_with(model, *tools), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode))
        run.subscribe(lambda _: None, on_finally=lambda _: over.set())
        told.begun.arrived(3)
        fails.open()
        assert over.wait(PATIENCE)
        assert run.wait_terminated(PATIENCE)
        assert (run.status, run.cancel_report) == (RunStatus.FAILED, None)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "again"
    assert sorted(told.sources) == [(who, "sibling_failure") for who in ("loop", "task", "thread")]
