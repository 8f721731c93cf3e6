"""Each road by which a run loses its last consumer, with each policy: cancelled, or going on to its end."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from apps import KEY, app_with, records
from intermission import CancelSource, Run, RunConfig, Runner, RunStatus, ToolContext, ToolFailedError
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loop_watch import heartbeat
from loops import PATIENCE
from turns import responses

POLICIES = pytest.mark.parametrize("policy", ["cancel", "detach"])


class Held:
    """A runner whose model says half a word, and then stands at a gate."""

    def __init__(self) -> None:
        self.gate, self.log = Gate(), MemoryEventLog()
        self.model = ScriptedModel(text("Hel", self.gate, "lo"), default="ok")
        self.runner = Runner(app_with(self.model), log=self.log)

    def run(self, policy: str) -> Run:
        """A cold run."""
        config = RunConfig(streaming=True, on_consumer_lost=policy)
        return self.runner.run(**KEY, message="hi", config=config)

    def assert_lost(self, run: Run, policy: str) -> None:
        """Assert that the run has ended by its policy, and that the session goes on."""
        if policy == "cancel":
            result = run.result(PATIENCE)
            assert result.status is RunStatus.CANCELLED
            assert run.cancel_report is not None
            assert run.cancel_report.source is CancelSource.CONSUMER_LOST
            assert records(self.log)[-1].data["source"] == "consumer_lost"
        else:
            assert (run.state, run.cancel_report) == ("running", None)
            self.gate.open()
            assert run.answer(PATIENCE) == "Hello"
        self.gate.open()
        assert run.wait_terminated(PATIENCE)
        assert len(self.model.requests) == 1
        assert self.runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


@pytest.fixture
def held() -> Iterator[Held]:
    """A runner, closed at the end, with its gate opened."""
    one = Held()
    yield one
    one.gate.open()
    one.runner.close()


# On a thread.


def breaks(run: Run) -> None:
    """Leave the loop."""
    for _ in run:
        break


def raises(run: Run) -> None:
    """Leave the loop by an error of its own."""
    with suppress(ValueError):
        for _ in run:
            raise ValueError


def is_interrupted(run: Run) -> None:
    """Leave the loop by Ctrl-C."""
    with suppress(KeyboardInterrupt):
        for _ in run:
            raise KeyboardInterrupt


def leaves_the_block(run: Run) -> None:
    """Leave the block."""
    with run:
        next(iter(run))


def leaves_the_block_by_an_error(run: Run) -> None:
    """Leave the block by an error of its own."""
    with suppress(ValueError), run:
        next(iter(run))
        raise ValueError


def closes_the_text(run: Run) -> None:
    """Close the stream of the text."""
    pieces: Any = run.text_stream()
    next(pieces)
    pieces.close()


def drops_the_iterator(run: Run) -> None:
    """Forget the iterator."""
    events = iter(run)
    next(events)
    del events


def has_the_iterator_collected(run: Run) -> None:
    """Leave the iterator, in a circle, to the garbage collection."""
    events = iter(run)
    next(events)
    circle: list[object] = [events]
    circle.append(circle)
    del events, circle
    gc.collect()


def disposes(run: Run) -> None:
    """Dispose of the subscription, which has been told of something."""
    told = threading.Event()
    subscription = run.subscribe(lambda _: told.set())
    assert told.wait(PATIENCE)
    subscription.dispose()


ROADS: list[Callable[[Run], None]] = [
    breaks,
    raises,
    is_interrupted,
    leaves_the_block,
    leaves_the_block_by_an_error,
    closes_the_text,
    drops_the_iterator,
    has_the_iterator_collected,
    disposes,
]


@POLICIES
@pytest.mark.parametrize("road", ROADS)
def test_a_thread_that_loses_its_run_cancels_it_or_leaves_it_to_itself(
    road: Callable[[Run], None], policy: str, held: Held
) -> None:
    run = held.run(policy)
    road(run)
    held.assert_lost(run, policy)


# On a loop.


async def iterates(run: Run) -> None:
    """Iterate it."""
    async for _ in run:
        pass


async def takes_its_text(run: Run) -> None:
    """Iterate its text."""
    async for _ in run.atext_stream():
        pass


async def awaits(run: Run) -> None:
    """Await it."""
    await run


async def awaits_its_answer(run: Run) -> None:
    """Await its answer."""
    await run.aanswer()


async def has_it_as_a_block(run: Run) -> None:
    """Wait in its block, for something else."""
    async with run:
        await asyncio.Event().wait()


async def iterates_in_its_block(run: Run) -> None:
    """Iterate it in its block."""
    async with run:
        async for _ in run:
            pass


CONSUMERS: list[Callable[[Run], Awaitable[None]]] = [
    iterates,
    takes_its_text,
    awaits,
    awaits_its_answer,
    has_it_as_a_block,
    iterates_in_its_block,
]


async def is_cancelled(consumer: Awaitable[None], begun: Callable[[], None]) -> None:
    """Have a task consume the run, and cancel it."""
    task = asyncio.ensure_future(consumer)
    await asyncio.to_thread(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def is_timed_out(consumer: Awaitable[None], begun: Callable[[], None]) -> None:
    """Have the run consumed within a limit, which passes."""
    limit = asyncio.timeout(None)

    async def expire() -> None:
        await asyncio.to_thread(begun)
        limit.reschedule(0)

    async def consume() -> None:
        async with limit:
            await consumer

    expiring = asyncio.ensure_future(expire())
    with pytest.raises(TimeoutError):
        await consume()
    await expiring


async def is_waited_for_too_briefly(consumer: Awaitable[None], begun: Callable[[], None]) -> None:
    """Have the run consumed by a wait that ends before it does."""

    async def consume() -> None:
        await consumer

    task = asyncio.ensure_future(consume())
    await asyncio.to_thread(begun)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 0.001)


WAYS = [is_cancelled, is_timed_out, is_waited_for_too_briefly]


@POLICIES
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_task_that_loses_its_run_cancels_it_or_leaves_it_to_itself_and_its_loop_never_stalls(
    consume: Callable[[Run], Awaitable[None]],
    way: Callable[[Awaitable[None], Callable[[], None]], Awaitable[None]],
    policy: str,
    held: Held,
) -> None:
    run = held.run(policy)

    async def main() -> None:
        async with heartbeat():
            await way(consume(run), held.gate.arrived)
            if policy == "cancel":
                assert (await run.aresult(PATIENCE)).status is RunStatus.CANCELLED

    asyncio.run(main())
    held.assert_lost(run, policy)


@POLICIES
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "collected"])
def test_a_coroutine_that_leaves_a_run_half_iterated_loses_it(closes: bool, policy: str, held: Held) -> None:
    run = held.run(policy)

    async def main() -> None:
        events: Any = aiter(run)
        await anext(events)
        if closes:
            await events.aclose()

    asyncio.run(main())
    held.assert_lost(run, policy)


# Inside a run.


@pytest.mark.parametrize("caught", [True, False])
def test_a_limit_of_asyncio_inside_an_async_tool_is_the_tools_own_affair(caught: bool) -> None:
    async def look(tool_context: ToolContext) -> str:
        try:
            async with asyncio.timeout(0.001):
                await tool_context.cancellation.asleep(3600)
        except TimeoutError:
            if not caught:
                raise
        tool_context.cancellation.check()
        return "in vain"

    model = ScriptedModel(calls(("look", {})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        if caught:
            assert run.answer(PATIENCE) == "done"
            assert responses(model) == [{"result": "in vain"}]
        else:
            with pytest.raises(ToolFailedError, match="TimeoutError"):
                run.answer(PATIENCE)
    assert run.cancel_report is None


@pytest.mark.parametrize("policy", ["cancel", "detach"])
def test_a_limit_of_asyncio_around_a_run_in_an_async_tool_loses_that_run_alone(policy: str) -> None:
    inner_gate, runs = Gate(), list[Run]()
    inner = Runner(app_with(ScriptedModel(text(inner_gate, "late"))), log=MemoryEventLog())
    config = RunConfig(on_consumer_lost=policy)

    async def ask() -> str:
        run = inner.run(user_id="u", session_id="inner", message="hi", config=config)
        runs.append(run)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await run
        return "no answer"

    model = ScriptedModel(calls(("ask", {})), "done")
    with inner, Runner(app_with(model, ask), log=MemoryEventLog()) as runner:
        outer = runner.run(**KEY, message="hi")
        assert outer.answer(PATIENCE) == "done"
        inner_gate.open()
        status = runs[0].result(PATIENCE).status
        assert runs[0].wait_terminated(PATIENCE)
    assert status is (RunStatus.CANCELLED if policy == "cancel" else RunStatus.COMPLETED)
    assert outer.cancel_report is None


@pytest.mark.scenario("A17")
@pytest.mark.parametrize("how", ["gives up", "is cancelled"])
def test_of_two_who_wait_for_a_run_one_may_go_and_the_other_has_the_result(how: str) -> None:
    begun, gate = list[int](), Gate()

    def work() -> str:
        begun.append(1)
        gate.wait()
        return "worked"

    async def first(run: Run) -> None:
        task = asyncio.ensure_future(run.aresult(0.001 if how == "gives up" else None))
        await asyncio.to_thread(gate.arrived)
        if how == "is cancelled":
            task.cancel()
        with pytest.raises(TimeoutError if how == "gives up" else asyncio.CancelledError):
            await task

    model = ScriptedModel(calls(("work", {})), "done")
    with Runner(app_with(model, work), log=MemoryEventLog()) as runner:
        run, answers = runner.run(**KEY, message="hi"), list[str]()
        second = threading.Thread(target=lambda: answers.append(run.answer(PATIENCE)))
        second.start()
        gate.arrived()
        asyncio.run(first(run))
        gate.open()
        second.join(PATIENCE)
        assert run.answer(0) == "done"
    assert (answers, begun, run.cancel_report) == (["done"], [1], None)
