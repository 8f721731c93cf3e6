"""Runs on event loops: each call that waits has a twin that leaves the loop free."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from apps import KEY, app_with
from intermission import Run, RunConfig, Runner, RunStatus, SessionClosedError
from intermission.kernel import loop_warnings
from intermission.runs.result import CancelSource
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE, foreign

TICKS = 20


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


async def iterated(run: Run) -> object:
    """Iterate a run."""
    return [event.text async for event in run]


async def spoken(run: Run) -> object:
    """Take a run's text."""
    return "".join([piece async for piece in run.atext_stream()])


async def blocked(run: Run) -> object:
    """Have a run as a block."""
    async with run:
        return await run.aanswer()


async def cancelled(run: Run) -> object:
    """Cancel a run, and wait for that."""
    return (await run.acancel(wait=True)).accepted


async def terminated(run: Run) -> object:
    """Wait for the end of all work."""
    return await run.aterminated()


async def awaited(run: Run) -> object:
    """Await the run itself."""
    return (await run).text


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (Run.astart, None),
        (Run.aresult, None),
        (Run.aanswer, "ok"),
        (awaited, "ok"),
        (iterated, ["ok"]),
        (spoken, "ok"),
        (blocked, "ok"),
        (cancelled, True),
        (terminated, True),
    ],
)
def test_no_twin_holds_up_its_loop_while_the_log_is_held(
    call: Callable[[Run], Awaitable[object]], value: object
) -> None:
    log = FaultyLog()

    async def main() -> None:
        gate = log.hold(1)
        run = runner.run(**KEY, message="hi")
        run.begin()
        await asyncio.to_thread(gate.arrived)
        task = asyncio.ensure_future(call(run))
        for _ in range(TICKS):
            await asyncio.sleep(0)
        assert not task.done()
        gate.open()
        found = await asyncio.wait_for(task, PATIENCE)
        assert value is None or found == value
        assert (await run.aresult(PATIENCE)).status is (
            RunStatus.CANCELLED if call is cancelled else RunStatus.COMPLETED
        )

    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        asyncio.run(main())


def test_astart_raises_what_start_raises() -> None:
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner:
        pass
    with pytest.raises(SessionClosedError):
        asyncio.run(runner.run(**KEY, message="hi").astart())


def test_a_limit_of_a_wait_on_a_loop_ends_the_wait_and_not_the_run(gate: Gate) -> None:
    async def main() -> None:
        run = await runner.run(**KEY, message="hi").astart()
        with pytest.raises(TimeoutError):
            await run.aresult(0)
        with pytest.raises(TimeoutError):
            await run.aanswer(0.001)
        assert not await run.aterminated(0)
        gate.open()
        assert await run.aanswer(PATIENCE) == "ok"

    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=MemoryEventLog()) as runner:
        asyncio.run(main())


def test_a_wait_that_asyncio_cuts_short_is_a_lost_consumer(gate: Gate) -> None:
    async def main() -> None:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.01)
        result = await asyncio.shield(run)
        assert result.status is RunStatus.CANCELLED
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.CONSUMER_LOST

    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=MemoryEventLog()) as runner:
        asyncio.run(main())


@pytest.mark.scenario("A17")
def test_of_two_tasks_that_await_a_run_the_last_one_takes_it_along(gate: Gate) -> None:
    async def main() -> None:
        run = runner.run(**KEY, message="hi")
        tasks = [asyncio.ensure_future(run.aresult()) for _ in range(2)]
        await asyncio.to_thread(gate.arrived)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert (run.state, run.cancel_report) == ("running", None)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert (await run).status is RunStatus.CANCELLED

    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=MemoryEventLog()) as runner:
        asyncio.run(main())


@pytest.mark.parametrize("started", [True, False], ids=["started", "consumed"])
def test_breaking_out_of_an_async_loop_is_losing_the_consumer_unless_it_was_started(
    started: bool, gate: Gate
) -> None:
    async def main() -> RunStatus:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True))
        if started:
            await run.astart()
        async for _ in run:
            break
        if started:
            gate.open()
        return (await run.aresult(PATIENCE)).status

    with Runner(app_with(ScriptedModel(text("Hel", gate, "lo"))), log=MemoryEventLog()) as runner:
        assert asyncio.run(main()) is (RunStatus.COMPLETED if started else RunStatus.CANCELLED)


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (Run.start, "astart"),
        (Run.result, "aresult"),
        (Run.wait_terminated, "aterminated"),
        (list, "async for"),
    ],
)
def test_a_blocking_call_on_a_loop_is_warned_of_once_by_the_name_of_its_twin(
    call: Callable[[Run], object],
    twin: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_warnings, "_warned", set[str]())

    async def main() -> None:
        for _ in range(3):
            run = runner.run(**KEY, message="hi")
            run.begin()
            call(run)

    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        asyncio.run(main())
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert twin in warning.getMessage()


def test_under_async_with_async_tools_run_on_the_running_loop_and_on_an_own_one_when_that_is_closed() -> None:
    loops = list[asyncio.AbstractEventLoop]()

    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        return "seen"

    async def main() -> asyncio.AbstractEventLoop:
        await runner.__aenter__()
        await runner.run(**KEY, message="hi")
        return asyncio.get_running_loop()

    model = ScriptedModel(calls(("look", {})), "ok", calls(("look", {})), "ok")
    runner = Runner(app_with(model, look), log=MemoryEventLog())
    used = asyncio.run(main())
    with runner:
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "ok"
    assert loops[0] is used
    assert loops[1] is not used
    assert len(loops) == 2


def test_a_loop_that_the_runner_is_given_stands_under_async_with() -> None:
    loops = list[asyncio.AbstractEventLoop]()

    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        return "seen"

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        model = ScriptedModel(calls(("look", {})), "ok")
        async with Runner(app_with(model, look), log=MemoryEventLog(), loop=loop) as runner:
            await runner.run(**KEY, message="hi")

    with foreign() as loop:
        asyncio.run(main(loop))
        assert loops == [loop]
