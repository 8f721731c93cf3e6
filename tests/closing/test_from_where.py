"""A runner that is closed by its own runs, hooks and plugins, by handlers, by tasks and over dead loops."""

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from apps import APP, KEY, Key, app_with
from intermission import AgentTool, App, LlmAgent, Plugin, Run, Runner, RunRecord, RunResult, RunStatus
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

OTHER = Key(user_id="u", session_id="other")
LONG = 1000.0  # seconds; who waits them out has hung


class Closer:
    """An app, and what in it closes its runner."""

    def __init__(self, where: str) -> None:
        self.closed = threading.Event()
        self.runner: Runner | None = None
        self._where = where

    def app(self) -> App:
        """Return the app, in which one place calls `close`."""
        replies = [calls((self._tool, {}))] if self._tool else []
        agent = LlmAgent(
            "agent",
            ScriptedModel(*replies, default="ok"),
            tools=[self.plain, self.on_the_loop],
            before_model_callback=self.close if self._where == "callback" else None,
        )
        return App(APP, agent, plugins=[_Closing(self, self._where)])

    @property
    def _tool(self) -> str:
        return {"tool": "plain", "async tool": "on_the_loop"}.get(self._where, "")

    def plain(self) -> None:
        """Close the runner."""
        self.close()

    async def on_the_loop(self) -> None:
        """Close the runner."""
        assert self.runner is not None
        try:
            await self.runner.aclose(LONG)
        finally:
            self.closed.set()

    def close(self, *_: object, **__: object) -> None:
        """Close the runner, wherever this is called."""
        assert self.runner is not None
        self.runner.close(LONG)
        self.closed.set()


class _Closing(Plugin):
    def __init__(self, closer: Closer, where: str) -> None:
        super().__init__("closing")
        self._closer = closer
        self._where = where

    def on_event_callback(self, **_: Any) -> None:
        """See `Plugin`."""
        if self._where == "event hook":
            self._closer.close()

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """See `Plugin`."""
        if self._where == "end hook":
            self._closer.close()

    def close(self) -> None:
        """Called when the runner closes."""
        if self._where == "plugin":
            self._closer.close()


@pytest.mark.parametrize("where", ["tool", "async tool", "callback", "event hook", "end hook"])
def test_code_that_closes_its_own_runner_is_not_waited_for_and_others_have_their_grace(
    where: str,
) -> None:
    closer, gate = Closer(where), Gate()
    runner = closer.runner = Runner(closer.app(), log=MemoryEventLog())
    other = None
    if where == "tool":
        slow = ScriptedModel(text(gate, "done"), calls(("plain", {})))
        runner._app.root_agent.model = slow  # type: ignore[attr-defined]  # pyright: ignore  # two kinds of runs
        other = runner.run(**OTHER, message="hi").start()
        gate.arrived()
    run = runner.run(**KEY, message="hi").start()
    if other is not None:
        assert not closer.closed.wait(0.1)
        gate.open()
        assert other.answer(PATIENCE) == "done"
    assert closer.closed.wait(PATIENCE)
    assert run.result(PATIENCE).status is (
        RunStatus.COMPLETED if where == "end hook" else RunStatus.CANCELLED
    )
    runner.close()


def test_runs_that_wait_for_the_one_that_closes_are_not_waited_for_either() -> None:
    closed = threading.Event()

    def outer() -> str:
        return runner.run(**OTHER, message="inner").answer(PATIENCE)

    def inner() -> None:
        runner.close(LONG)
        closed.set()

    model = ScriptedModel(calls(("outer", {})), calls(("inner", {})))
    runner = Runner(app_with(model, outer, inner), log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    assert closed.wait(PATIENCE)
    assert run.result(PATIENCE).status is RunStatus.CANCELLED


def test_runs_that_wait_over_agents_that_are_tools_for_the_one_that_closes_are_not_waited_for_either() -> (
    None
):
    def closes() -> None:
        runner.close(LONG)

    third = LlmAgent("third", ScriptedModel(calls(("closes", {})), default="ok"), tools=[closes])
    asked = {"request": "go on"}
    second = LlmAgent(
        "second", ScriptedModel(calls(("third", asked)), default="ok"), tools=[AgentTool(third)]
    )
    model = ScriptedModel(calls(("second", asked)), default="ok")
    runner = Runner(App(APP, LlmAgent("first", model, tools=[AgentTool(second)])), log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert run.wait_terminated(PATIENCE)


def test_code_that_a_close_waits_for_returns_at_once_from_a_close_of_its_own() -> None:
    gate = Gate()

    def closes() -> str:
        gate.wait()
        runner.close(LONG)
        return "closed"

    runner = Runner(app_with(ScriptedModel(calls(("closes", {})), "done"), closes), log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    first = threading.Thread(target=runner.close, args=(LONG,))
    first.start()
    while not runner._directory._closed:  # pyright: ignore[reportPrivateUsage] - the first is inside then
        first.join(0.001)
    gate.open()
    assert run.answer(PATIENCE) == "done"
    first.join(PATIENCE)
    assert not first.is_alive()


def test_a_plugin_that_closes_its_runner_when_it_is_closed_holds_up_nothing() -> None:
    closer = Closer("plugin")
    runner = closer.runner = Runner(closer.app(), log=MemoryEventLog())
    runner.close(LONG)
    assert closer.closed.is_set()


def test_a_signal_handler_that_closes_while_its_thread_waits_for_a_run_ends_the_run() -> None:
    gate = Gate()
    runner = Runner(app_with(ScriptedModel(text(gate, "late"))), log=MemoryEventLog())
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()

    def handle(*_: object) -> None:
        runner.close(grace=0)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
    finally:
        signal.signal(signal.SIGALRM, before)
    runner.close()
    gate.open()


def test_a_task_that_is_cancelled_while_it_leaves_the_block_ends_the_grace_and_the_close_is_done() -> None:
    gate, log = Gate(), MemoryEventLog()

    async def use(runner: Runner, runs: list[Run]) -> None:
        runner.aclose = partial(runner.aclose, LONG)  # type: ignore[method-assign]  # the block has no other way to a longer grace
        async with runner:
            runs.append(await runner.run(**KEY, message="hi").astart())
            await asyncio.to_thread(gate.arrived)

    async def main() -> None:
        runner, runs = Runner(app_with(ScriptedModel(text(gate, "late"))), log=log), list[Run]()
        leaving = asyncio.create_task(use(runner, runs))
        while not (runs and runner._directory._closed):  # pyright: ignore[reportPrivateUsage] - it leaves
            await asyncio.sleep(0.001)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(leaving, PATIENCE)
        assert runs[0].status is RunStatus.CANCELLED
        assert runner._services.workers.is_closed  # pyright: ignore[reportPrivateUsage] - near the end of a close

    asyncio.run(main())
    gate.open()


def test_a_close_on_a_loop_whose_threads_are_all_taken_is_done() -> None:
    gate = Gate()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:
            loop.set_default_executor(executor)
            taken = loop.run_in_executor(None, gate.wait)
            runner = Runner(app_with(ScriptedModel()), log=MemoryEventLog())
            await asyncio.wait_for(runner.aclose(), PATIENCE)
            gate.open()
            await taken

    asyncio.run(main())


def test_a_runner_whose_loop_was_closed_before_it_is_closed_all_the_same() -> None:
    async def hello() -> str:
        return "hello"

    async def main() -> Runner:
        runner = Runner(app_with(ScriptedModel(calls(("hello", {})), "done"), hello), log=MemoryEventLog())
        await runner.__aenter__()
        assert await runner.run(**KEY, message="hi").aanswer() == "done"
        return runner

    runner = asyncio.run(main())
    runner.close()
    with pytest.raises(Exception, match="closed"):
        runner.run(**KEY, message="hi").answer()


def test_what_an_async_tool_has_a_thread_of_its_loop_do_comes_back_with_its_errors() -> None:
    def blocks(value: str) -> str:
        if value == "bad":
            raise ValueError("it is bad")
        return f"{value}, {threading.current_thread().daemon}"

    async def look() -> list[str]:
        said = await asyncio.gather(*[asyncio.to_thread(blocks, str(number)) for number in range(3)])
        try:
            await asyncio.to_thread(blocks, "bad")
        except ValueError as error:
            said.append(str(error))
        return said

    with Runner(app_with(ScriptedModel(calls(("look", {})), "done"), look), log=MemoryEventLog()) as runner:
        events = runner.run(**KEY, message="hi").result(PATIENCE).events
    (response,) = [part for event in events for part in event.function_responses]
    assert response.response == {"result": ["0, True", "1, True", "2, True", "it is bad"]}
