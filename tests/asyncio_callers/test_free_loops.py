"""No call of the library that a loop's thread makes waits for anything, and the loop goes on."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, Key, app_with
from async_gates import AsyncGate
from intermission import App, LlmAgent, ResumabilityConfig, Run, RunConfig, Runner, RunStatus
from intermission.runs.stream import Stream
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import LmdbEventLog
from loop_watch import LoopWatch
from loops import PATIENCE


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def key(number: int) -> Key:
    return {"user_id": "u", "session_id": str(number)}


def test_what_would_block_is_noticed(tmp_path: Path) -> None:
    async def main() -> list[str]:
        with LmdbEventLog(tmp_path / "log") as log, LoopWatch() as watch:
            log.head("stream")
            run = Runner(app_with(ScriptedModel("ok")), log=log)
            run.run(**KEY, message="hi").result()
            run.close()
            time.sleep(0)  # noqa: TID251 - it is to be noticed
        return watch.seen

    seen = " ".join(asyncio.run(main()))
    for one in ("LmdbEventLog.head", "Latch.wait", "join", "sleep"):
        assert one in seen, seen


async def use_runs(runner: Runner, gate: Gate, waiting: AsyncGate) -> None:
    """Consume, view, cancel and drop runs; some events are read from the log."""
    async with runner.run(**KEY, message="hi", config=RunConfig(streaming=True)) as run:
        assert await run.aanswer() == "done"
        assert len([event async for event in run]) > 2
    viewer = await runner.aattach(**KEY)
    assert len([event async for event in viewer]) > 2
    cancelled = await runner.run(**key(1), message="hi").astart()
    await asyncio.to_thread(gate.arrived)
    (seen,) = runner.active(session_id="1")
    assert (await seen.acancel()).accepted
    assert (await cancelled).status is RunStatus.CANCELLED
    gate.open()
    assert await cancelled.aterminated(PATIENCE)
    tool = runner.run(**key(2), message="hi")
    task = asyncio.ensure_future(tool.aresult())
    await asyncio.to_thread(waiting.arrived)
    assert "runs_active" in runner.metrics()
    assert isinstance(runner.residual(), list)
    task.cancel()
    await asyncio.wait([task])
    assert (await tool).status is RunStatus.CANCELLED
    events = aiter(runner.run(**KEY, message="left"))
    await anext(events)
    del events
    assert len(await (await runner.run(**KEY, message="last")).aevents()) > 1


async def use_sessions(runner: Runner) -> None:
    """Make, change, read and delete a session; look at all."""
    session = runner.session(**key(3))
    await session.acreate({"a": 1})
    await session.aset_state({"a": 2})
    assert (await session.astate(), await session.aexists()) == ({"a": 2}, True)
    assert (await session.aruns(), await session.aevents(), await session.apending()) == ([], [], [])
    assert await session.adelete()
    assert (await runner.acancel(**key(3))).nothing_running
    assert len(await runner.sessions.alist()) == 3
    assert (await runner.arecover(), (await runner.arecover_all()).continued) == ([], ())


def test_nothing_that_may_block_is_done_on_the_thread_of_a_loop(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = AsyncGate()

    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    async def wait() -> None:
        await waiting.wait()

    model = ScriptedModel(
        calls(("look", {}), ("look", {})), "done", text("a ", gate, "b"), calls(("wait", {})), default="ok"
    )
    agent = LlmAgent("agent", model, tools=[look, wait])
    app = App("app", agent, resumability_config=ResumabilityConfig(is_resumable=True))
    log = LmdbEventLog(tmp_path / "log")
    defaults: Any = Stream.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "limit", 2)  # more events than wait for a consumer are read from the log

    async def main() -> list[str]:
        runner = Runner(app, log=log)
        with LoopWatch() as watch:
            async with runner:
                await use_runs(runner, gate, waiting)
                await use_sessions(runner)
        return watch.seen

    with log:
        assert asyncio.run(main()) == []


def test_with_every_commit_held_each_call_on_a_loop_leaves_it_free() -> None:
    log = FaultyLog()
    runner = Runner(app_with(ScriptedModel(default="ok")), log=log)

    async def main() -> None:
        await runner.run(**KEY, message="first")
        gates = [log.hold(lambda _, records: bool(records)) for _ in range(8)]
        begun = runner.run(**KEY, message="hi")
        begun.begin()
        await asyncio.to_thread(gates[0].arrived)
        waits: list[Awaitable[object]] = [
            *(runner.run(**key(1), message="hi").astart(), begun.aresult(), begun.aterminated()),
            *(runner.session(**key(2)).acreate(), runner.session(**KEY).aset_state({"a": 1})),
            spoken(begun),
        ]
        tasks = [asyncio.ensure_future(one) for one in waits]
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert [run.state for run in runner.active(**KEY)] == ["queued"]
            assert runner.metrics()["runs_queued"] >= 1
            begun.stop("a stop is a request")
            assert begun.cancel_call("none") is False
            runner.run(**KEY, message="cold").cancel()
        assert not any(task.done() for task in tasks)
        begun.cancel("waits for nobody")
        closing = asyncio.ensure_future(runner.aclose(grace=0))
        await asyncio.sleep(0.001)
        assert not closing.done()
        for gate in gates:
            gate.open()
        await asyncio.wait([*tasks, closing], timeout=PATIENCE)
        assert all(task.done() for task in tasks)
        await closing
        for task in tasks:
            task.exception()  # what was closed meanwhile says so

    try:
        asyncio.run(main())
    finally:
        log.close()


async def spoken(run: Run) -> str:
    return "".join([piece async for piece in run.atext_stream()])
