"""Async generators around a run: however they are closed, the run cleans up in its own context."""

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest

from apps import KEY
from intermission import (
    AgentContext,
    App,
    CancelSource,
    LlmAgent,
    Plugin,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
)
from intermission.agents.effects import Steps
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from loops import PATIENCE

WHO: ContextVar[str] = ContextVar("who", default="nobody")
PLACES = {"async tool", "async hook", "thread tool", "cancel hook", "agent", "on_run_end"}


class Notes:
    """Whose context was current where something was cleaned up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: dict[str, str] = {}
        self.begun = 0

    def note(self, place: str) -> None:
        with self._changed:
            self.seen[place] = WHO.get()
            self._changed.notify_all()

    def begin(self) -> None:
        with self._changed:
            self.begun += 1
            self._changed.notify_all()

    def wait_begun(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun == 2, PATIENCE)

    def wait(self, places: set[str]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: places <= set(self.seen), PATIENCE), self.seen


class Noting(LlmAgent):
    """Notes where its generator is closed."""

    def __init__(self, notes: Notes, model: ScriptedModel, *tools: Callable[..., Any]) -> None:
        super().__init__("agent", model, tools=tools)
        self.notes = notes

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            yield from super().run(context)
        finally:
            self.notes.note("agent")


class Ends(Plugin):
    """Notes where runs end."""

    def __init__(self, notes: Notes) -> None:
        super().__init__("ends")
        self.notes = notes

    def on_run_end(self, run: Any, result: Any) -> None:
        """See `Plugin.on_run_end`."""
        self.notes.note("on_run_end")


class Held:
    """A runner whose model calls a tool on the loop and one on a thread, which wait for their cancel."""

    def __init__(self) -> None:
        self.notes = notes = Notes()

        async def task(tool_context: ToolContext) -> None:
            notes.begin()
            tool_context.cancellation.on_cancel(lambda: notes.note("async hook"))
            try:
                await asyncio.Event().wait()
            finally:
                notes.note("async tool")

        def work(tool_context: ToolContext) -> None:
            notes.begin()
            tool_context.cancellation.on_cancel(lambda: notes.note("cancel hook"))
            tool_context.cancellation.wait(PATIENCE)
            notes.note("thread tool")

        model = ScriptedModel(calls(("task", {}), ("work", {})))
        app = App("app", Noting(notes, model, task, work), plugins=[Ends(notes)])
        self.runner = Runner(app, log=MemoryEventLog())

    def run(self) -> Run:
        """A cold run, made in the context of `ada`, which has another before and after."""
        token = WHO.set("ada")
        run = self.runner.run(**KEY, message="hi", config=RunConfig(streaming=True))
        WHO.reset(token)
        return run


@pytest.fixture
def held() -> Iterator[Held]:
    """A runner, closed at the end."""
    one = Held()
    yield one
    one.runner.close()


async def wrapped(run: Run) -> AsyncGenerator[str]:
    """What a user writes around a run."""
    token = WHO.set("the generator's own")
    async with run:
        async for event in run:
            yield event.delta
    WHO.reset(token)


async def texts(run: Run) -> AsyncGenerator[str]:
    """The same around the events alone."""
    async for event in run:
        yield event.delta


async def is_closed(generator: AsyncGenerator[str], held: Held) -> None:
    """Close it, as `aclosing` does."""
    async with aclosing(generator):
        await anext(generator)
        await asyncio.to_thread(held.notes.wait_begun)


async def is_closed_by_another_task(generator: AsyncGenerator[str], held: Held) -> None:
    """Close it in a task that has not driven it."""
    await anext(generator)
    await asyncio.to_thread(held.notes.wait_begun)
    await asyncio.create_task(_closed(generator))


async def _closed(generator: AsyncGenerator[str]) -> None:
    WHO.set("the closer")
    await generator.aclose()


async def is_collected(generator: AsyncGenerator[str], held: Held) -> None:
    """Leave it, in a circle, to the garbage collection; its loop closes it in a task of its own."""
    await anext(generator)
    await asyncio.to_thread(held.notes.wait_begun)
    circle: list[Any] = [generator]
    circle.append(circle)
    del generator, circle
    WHO.set("whoever collects")
    gc.collect()


async def is_left_to_the_loop(generator: AsyncGenerator[str], held: Held) -> None:
    """Keep it until `asyncio.run` shuts its generators down."""
    KEPT.append(generator)
    await anext(generator)
    await asyncio.to_thread(held.notes.wait_begun)


KEPT: list[object] = []


async def is_thrown_into(generator: AsyncGenerator[str], held: Held) -> None:
    """Throw an error into it."""
    await anext(generator)
    await asyncio.to_thread(held.notes.wait_begun)
    with pytest.raises(LookupError):
        await generator.athrow(LookupError())


async def loses_its_task(generator: AsyncGenerator[str], held: Held) -> None:
    """Cancel the task that drives it."""

    async def drive() -> None:
        async for _ in generator:
            pass

    task = asyncio.create_task(drive())
    await asyncio.to_thread(held.notes.wait_begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("generator", [wrapped, texts])
@pytest.mark.parametrize(
    "close",
    [
        is_closed,
        is_closed_by_another_task,
        is_collected,
        is_left_to_the_loop,
        is_thrown_into,
        loses_its_task,
    ],
)
def test_a_generator_around_a_run_cleans_up_in_the_context_of_the_run_however_it_is_closed(
    close: Callable[[AsyncGenerator[str], Held], Awaitable[None]],
    generator: Callable[[Run], AsyncGenerator[str]],
    held: Held,
) -> None:
    problems, runs = list[dict[str, Any]](), list[Run]()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        if close is not is_left_to_the_loop:  # which would end the tool before the generator is closed
            await held.runner.__aenter__()  # the tool is a task of this loop
        run = held.run()
        runs.append(run)
        await close(generator(run), held)
        if close is not is_left_to_the_loop:
            await asyncio.to_thread(held.notes.wait, PLACES)  # who awaited the run would be a consumer, too

    asyncio.run(main())
    KEPT.clear()
    (run,) = runs
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert run.cancel_report is not None
    assert run.cancel_report.source is CancelSource.CONSUMER_LOST

    held.notes.wait(PLACES)
    assert held.notes.seen == dict.fromkeys(PLACES, "ada")
    assert problems == []
