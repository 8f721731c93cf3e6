"""Who consumes a run, in which ways it is lost, and what becomes of the run."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from apps import KEY, Key, app_with, kinds, records
from blocked import wait_until_blocked
from intermission import Run, RunConfig, Runner, RunStatus
from intermission.runs.result import CancelSource
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from races import at_once, check, check_usable

STREAMING = RunConfig(streaming=True)


class Held:
    """A runner whose model says one word and then stands at a gate."""

    def __init__(self) -> None:
        self.gate, self.log = Gate(), MemoryEventLog()
        self.runner = Runner(
            app_with(ScriptedModel(text("Hel", self.gate, "lo"), default="ok")),
            log=self.log,
            config=STREAMING,
        )

    def run(self) -> Run:
        """A cold run."""
        return self.runner.run(**KEY, message="hi")


@pytest.fixture
def held() -> Iterator[Held]:
    """A runner, closed at the end, with its gate opened."""
    one = Held()
    yield one
    one.gate.open()
    one.runner.close()


def assert_lost(held: Held, run: Run) -> None:
    """Assert that the run was cancelled since nobody consumed it."""
    assert run.result(30).status is RunStatus.CANCELLED
    assert run.cancel_report is not None
    assert run.cancel_report.source is CancelSource.CONSUMER_LOST
    assert records(held.log)[-1].data["source"] == "consumer_lost"


def test_breaking_out_of_the_loop_cancels_the_run(held: Held) -> None:
    run = held.run()
    for _ in run:
        break
    assert_lost(held, run)


def test_an_exception_in_the_loop_cancels_the_run(held: Held) -> None:
    run = held.run()

    def consume() -> None:
        for _ in run:
            raise ValueError("the loop's own")

    with pytest.raises(ValueError, match="the loop's own"):
        consume()
    assert_lost(held, run)


def test_leaving_the_block_cancels_the_run(held: Held) -> None:
    with held.run() as run:
        held.gate.arrived()
    assert_lost(held, run)


def test_a_run_that_is_waited_for_by_somebody_else_goes_on_without_its_block(held: Held) -> None:
    run = held.run()
    waiter = threading.Thread(target=run.result)
    with run:
        held.gate.arrived()
        waiter.start()
        wait_until_blocked(waiter)
    held.gate.open()
    waiter.join(30)
    assert run.status is RunStatus.COMPLETED


def test_an_interrupt_in_the_loop_cancels_the_run(held: Held) -> None:
    run = held.run()

    def consume() -> None:
        for _ in run:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        consume()
    assert_lost(held, run)


def test_garbage_collection_of_the_iterator_cancels_the_run(held: Held) -> None:
    run = held.run()
    events = iter(run)
    next(events)
    circle: list[object] = [events]
    circle.append(circle)
    del events, circle
    gc.collect()
    assert_lost(held, run)


def test_closing_the_iterator_cancels_the_run(held: Held) -> None:
    run = held.run()
    events = run.text_stream()
    assert next(iter(events)) == "Hel"
    events.close()  # type: ignore[attr-defined]  # it is a generator
    del events
    assert_lost(held, run)


def test_a_cancelled_task_that_iterates_cancels_the_run(held: Held) -> None:
    run = held.run()

    async def consume() -> None:
        async for _ in run:
            pass

    async def main() -> None:
        task = asyncio.create_task(consume())
        await asyncio.to_thread(held.gate.arrived)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert_lost(held, run)


def test_a_cancelled_task_that_awaits_cancels_the_run(held: Held) -> None:
    run = held.run()

    async def main() -> None:
        task = asyncio.ensure_future(run.aresult())
        await asyncio.to_thread(held.gate.arrived)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert_lost(held, run)


def test_a_shielded_run_goes_on_when_its_task_is_cancelled(held: Held) -> None:
    run = held.run()

    async def waits() -> None:
        await asyncio.shield(run)

    async def main() -> None:
        task = asyncio.create_task(waits())
        await asyncio.to_thread(held.gate.arrived)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.gate.open()
        assert (await run).status is RunStatus.COMPLETED

    asyncio.run(main())


@pytest.mark.scenario("A17")
def test_giving_up_a_wait_takes_the_result_from_nobody(held: Held) -> None:
    run, results = held.run(), list[str]()
    with run:
        waiter = threading.Thread(target=lambda: results.append(run.answer(30)))
        waiter.start()
        held.gate.arrived()
        with pytest.raises(TimeoutError):
            run.result(timeout=0)

        async def gives_up() -> None:
            task = asyncio.ensure_future(run.aresult())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(gives_up())
        held.gate.open()
        waiter.join(30)
    assert results == ["Hello"]
    assert run.answer(30) == "Hello"


def test_a_detached_run_goes_on_without_its_consumer(held: Held) -> None:
    run = held.runner.run(**KEY, message="hi", config=RunConfig(streaming=True, on_consumer_lost="detach"))
    for _ in run:
        break
    held.gate.open()
    assert run.answer(30) == "Hello"


def test_a_viewer_that_goes_touches_nothing_and_its_cancel_does(held: Held) -> None:
    run = held.run().start()
    held.gate.arrived()
    (viewer,) = held.runner.active()
    with viewer:
        events = iter(viewer)
        next(events)
        del events
    assert run.status is None
    assert viewer.cancel().accepted
    assert run.result(30).status is RunStatus.CANCELLED


def test_a_cold_run_that_is_dropped_gives_a_resource_warning_and_leaves_no_record(held: Held) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = held.run()
        del run
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert held.log.streams() == []


def test_finalisers_in_the_midst_of_every_lock_neither_hang_nor_lose_a_run() -> None:
    before = gc.get_threshold()
    log = MemoryEventLog()
    model = ScriptedModel(default=text("o", "k"))
    with Runner(app_with(model), log=log, config=STREAMING) as runner:
        gc.set_threshold(1, 1, 1)
        try:
            dropped: list[Run] = []
            for _ in range(20):
                run = runner.run(**KEY, message="hi")
                events = iter(run)
                next(events, None)
                circle: list[object] = [events]
                circle.append(circle)
                dropped.append(run)
                del events, circle
        finally:
            gc.set_threshold(*before)
        gc.collect()
        for run in dropped:
            assert run.result(30).status in {RunStatus.CANCELLED, RunStatus.COMPLETED}
    assert kinds(log).count("run_started") == kinds(log).count("run_ended")


def test_finalisers_on_many_threads_at_once_neither_hang_nor_lose_a_run() -> None:
    before, dropped = gc.get_threshold(), list[Run]()
    log, model = MemoryEventLog(), ScriptedModel(default=text("o", "k"))
    with Runner(app_with(model), log=log, config=STREAMING) as runner:

        def drop(number: int) -> None:
            for _ in range(10):
                run = runner.run(user_id="u", session_id=f"{number % 2}", message="hi")
                events: list[object] = [iter(run)]
                events.append(events)
                dropped.append(run)
                del events

        gc.set_threshold(1, 1, 1)
        try:
            at_once(*[partial(drop, number) for number in range(4)])
        finally:
            gc.set_threshold(*before)
        gc.collect()
        for run in dropped:
            assert run.result(30).status in {RunStatus.CANCELLED, RunStatus.COMPLETED}
        for session in "01":
            check_usable(runner, Key(user_id="u", session_id=session))
            check(log, key=Key(user_id="u", session_id=session))
    assert len(dropped) == 40


def test_an_interrupt_while_a_result_is_awaited_cancels_the_run(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = held.run()

    def interrupted(timeout: float | None) -> None:
        held.gate.arrived()
        raise KeyboardInterrupt

    monkeypatch.setattr(run._lifecycle, "wait_ended", interrupted)  # pyright: ignore[reportPrivateUsage]  # stands for Ctrl-C
    with pytest.raises(KeyboardInterrupt):
        run.result()
    monkeypatch.undo()
    assert_lost(held, run)


def test_calls_are_not_lost_with_a_consumer_that_only_looks_at_the_text() -> None:
    def look() -> str:
        return "seen"

    log = MemoryEventLog()
    model = ScriptedModel(calls(("look", {})), text("o", "k"))
    with Runner(app_with(model, look), log=log, config=STREAMING) as runner:
        assert "".join(runner.run(**KEY, message="hi").text_stream()) == "ok"
    assert kinds(log).count("call_finished") == 1
