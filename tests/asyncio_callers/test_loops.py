"""Whose loop it is: several at a time, one that was closed, one in a thread of a tool; threads beside one."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from apps import Key, app_with
from async_gates import AsyncGate
from intermission import (
    App,
    LlmAgent,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    ToolFailedError,
)
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loop_kinds import LOOPS, MakeLoop, run_on
from loops import PATIENCE
from turns import responses

WHO: ContextVar[str] = ContextVar("who", default="nobody")
KINDS = pytest.mark.parametrize("kind", LOOPS.values(), ids=LOOPS)


def key(number: int = 0) -> Key:
    return {"user_id": "u", "session_id": str(number)}


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


async def spoken(run: Run) -> str:
    return "".join([event.delta async for event in run])


def test_loops_of_several_threads_consume_the_runs_of_one_runner_and_wait_for_one_of_them(
    gate: Gate,
) -> None:
    model = ScriptedModel(default=text("Hel", gate, "lo"))
    config = RunConfig(streaming=True)
    found, kinds = list[Any](), [*LOOPS.values(), *LOOPS.values()]
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        shared = runner.run(**key(9), message="hi").start()

        def serve(number: int, kind: MakeLoop) -> None:
            async def main() -> tuple[str, str, int]:
                own = asyncio.ensure_future(spoken(runner.run(**key(number), message="hi", config=config)))
                viewer = await runner.aattach(**key(9))
                result = await shared
                return await own, result.text, len([event async for event in viewer])

            found.append(run_on(kind, main()))

        threads = [threading.Thread(target=serve, args=one) for one in enumerate(kinds)]
        for thread in threads:
            thread.start()
        gate.arrived(len(kinds) + 1)
        gate.open()
        for thread in threads:
            thread.join(PATIENCE)
    assert found == [("Hello", "Hello", 2)] * len(kinds)


@KINDS
def test_a_loop_that_is_closed_under_its_runs_leaves_them_to_others(kind: MakeLoop, gate: Gate) -> None:
    with Runner(app_with(ScriptedModel(default=text("Hel", gate, "lo"))), log=MemoryEventLog()) as runner:
        loop = kind()

        async def begin() -> list[Any]:
            started = await runner.run(**key(0), message="hi").astart()
            lost, kept = (
                runner.run(
                    **key(number), message="hi", config=RunConfig(streaming=True, on_consumer_lost=what)
                )
                for number, what in ((1, "cancel"), (2, "detach"))
            )
            events = [aiter(lost), aiter(kept), aiter(await runner.aattach(**key(0)))]
            for one in events:
                await anext(one)
            return [started, lost, kept, events]

        started, lost, kept, events = loop.run_until_complete(begin())
        loop.close()
        assert (started.state, lost.state, kept.state) == ("running", "running", "running")
        events.clear()
        assert lost.result(PATIENCE).status is RunStatus.CANCELLED
        gate.open()

        async def end() -> list[str]:
            return [await run.aanswer(PATIENCE) for run in (started, kept)]

        assert run_on(kind, end()) == ["Hello", "Hello"]


@KINDS
def test_a_tool_on_a_thread_may_have_a_loop_of_its_own(kind: MakeLoop) -> None:
    def ask() -> str:
        async def main() -> str:
            async with asyncio.timeout(PATIENCE):
                return await spoken(runner.run(**key(1), message="inner"))

        return run_on(kind, main())

    model = ScriptedModel(calls(("ask", {})), "inner answer", "done")
    with Runner(app_with(model, ask), log=MemoryEventLog()) as runner:
        assert run_on(kind, runner.run(**key(), message="hi").aanswer(PATIENCE)) == "done"
    assert responses(model) == [{"result": "inner answer"}]


@KINDS
def test_blocking_calls_belong_on_a_thread_and_a_task_that_leaves_one_ends_no_run(
    kind: MakeLoop, gate: Gate
) -> None:
    async def main() -> None:
        async with Runner(app_with(ScriptedModel(default=text("Hel", gate, "lo"))), log=MemoryEventLog()) as (
            runner
        ):
            run = runner.run(**key(), message="hi")
            task = asyncio.ensure_future(asyncio.to_thread(run.answer))
            await asyncio.to_thread(gate.arrived)
            task.cancel()
            await asyncio.wait([task])
            assert (run.state, run.cancel_report) == ("running", None)  # its thread waits on
            other = asyncio.get_running_loop().run_in_executor(None, run.result, PATIENCE)
            gate.open()
            assert (await other).text == await run.aanswer() == "Hello"

    run_on(kind, main())


@KINDS
def test_under_async_with_hooks_and_tools_are_tasks_of_the_running_loop_and_clients_are_made_there(
    kind: MakeLoop,
) -> None:
    seen = dict[str, object]()

    def note(place: str) -> None:
        seen[place] = asyncio.get_running_loop()

    async def on_startup() -> None:
        note("start-up")

    async def before_tool(*_: object) -> None:
        note("hook")

    async def look() -> str:
        note("tool")
        return "seen"

    async def main() -> None:
        agent = LlmAgent(
            "agent", ScriptedModel(calls(("look", {})), "ok"), tools=[look], before_tool_callback=before_tool
        )
        async with Runner(App("app", agent), log=MemoryEventLog(), on_startup=on_startup) as runner:
            assert await runner.run(**key(), message="hi").aanswer() == "ok"
        assert seen == dict.fromkeys(["start-up", "hook", "tool"], asyncio.get_running_loop())

    run_on(kind, main())


# Async tools that have tasks of their own.


class Work:
    """What a tool's tasks do: they wait, and tell of their ends."""

    def __init__(self) -> None:
        self.gate, self.ended = AsyncGate(), list[str]()

    async def step(self, name: str) -> str:
        try:
            await self.gate.wait()
        finally:
            self.ended.append(name)
        return name


async def groups(work: Work) -> str:
    """Have a `TaskGroup`."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work.step(name)) for name in "ab"]
    return "".join(task.result() for task in tasks)


async def with_anyio(work: Work) -> str:
    """Have a task group and a cancel scope of anyio."""
    found = list[str]()

    async def step(name: str) -> None:
        found.append(await work.step(name))

    with anyio.CancelScope():
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(step, name)
    return "".join(sorted(found))


async def gathers(work: Work) -> str:
    """Gather."""
    return "".join(await asyncio.gather(work.step("a"), work.step("b")))


async def shields(work: Work) -> str:
    """Finish what has begun, whoever cancels."""
    task = asyncio.ensure_future(groups(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def swallows(work: Work) -> str:
    """Take a cancel for nothing, and say that all is well."""
    try:
        return await groups(work)
    except asyncio.CancelledError:
        return "ab"


@KINDS
@pytest.mark.parametrize("body", [groups, with_anyio, gathers, shields, swallows])
@pytest.mark.parametrize("cancelled", [False, True], ids=["let be", "cancelled"])
def test_a_tool_may_have_tasks_of_its_own_and_has_ended_when_they_have(
    cancelled: bool, body: Callable[[Work], Awaitable[str]], kind: MakeLoop
) -> None:
    work = Work()

    async def tool(tool_context: ToolContext) -> str:
        return await body(work)

    async def main() -> None:
        model = ScriptedModel(calls(("tool", {})), "done")
        async with Runner(app_with(model, tool), log=MemoryEventLog()) as runner:
            run = await runner.run(**key(), message="hi").astart()
            await asyncio.to_thread(work.gate.arrived, 2)
            if cancelled:
                assert (await run.acancel()).accepted
                assert (await run).status is RunStatus.CANCELLED
                if body is shields:
                    assert not await run.aterminated(0)
                    assert "tool" in [one.what for one in runner.residual()]
                    work.gate.open()
                assert await run.aterminated(PATIENCE)
                assert len(model.requests) == 1
            else:
                work.gate.open()
                assert await run.aanswer(PATIENCE) == "done"
                assert responses(model) == [{"result": "ab"}]
            assert sorted(work.ended) == ["a", "b"]
            assert len(asyncio.all_tasks()) == 1

    run_on(kind, main())


@KINDS
def test_what_is_recovered_on_a_loop_has_the_context_of_its_task(kind: MakeLoop) -> None:
    seen, gate = list[str](), AsyncGate()

    async def look() -> str:
        seen.append(WHO.get())
        await gate.wait()
        return "seen"

    async def main() -> None:
        model = ScriptedModel(calls(("look", {})), calls(("look", {})), default="done")
        resumable = ResumabilityConfig(is_resumable=True)
        app = App("app", LlmAgent("agent", model, tools=[look]), resumability_config=resumable)
        log = MemoryEventLog()
        runner = Runner(app, log=log)
        for number in range(2):
            await runner.run(**key(number), message="hi").astart()
        await asyncio.to_thread(gate.arrived, 2)
        await runner.aclose(grace=0)
        gate.open()
        async with Runner(app, log=log) as runner:
            WHO.set("ada")
            (run,) = await runner.arecover(session_id="0")
            all_others = runner.arecover_all()
            assert await run.aanswer() == "done"
            WHO.set("nobody in particular")
            (other,) = (await all_others).continued
            assert other.result.text == "done"

    run_on(kind, main())
    assert seen == ["nobody", "nobody", "ada", "nobody in particular"]


def test_a_loop_that_ends_before_its_runner_takes_its_tools_along_and_fails_their_runs() -> None:
    gate = AsyncGate()

    async def wait() -> None:
        await gate.wait()

    async def main() -> Run:
        await runner.__aenter__()  # and nobody leaves the block
        run = await runner.run(**key(), message="hi").astart()
        await asyncio.to_thread(gate.arrived)
        return run

    with Runner(app_with(ScriptedModel(calls(("wait", {}))), wait), log=MemoryEventLog()) as runner:
        run = asyncio.run(main())
        with pytest.raises(ToolFailedError, match="CancelledError"):
            run.answer(PATIENCE)
