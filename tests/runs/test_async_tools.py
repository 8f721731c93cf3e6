"""Tools that run as tasks on a loop: their ends, and who waits for them."""

import asyncio
import concurrent.futures
import contextvars
import threading
from typing import Any

import pytest

from apps import KEY, app_of, app_with, records
from async_gates import AsyncGate
from intermission import LlmAgent, RunConfig, Runner, RunStatus, ToolContext, ToolFailedError
from intermission.config import ToolExecution
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.scope import Cancelled
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import EventLog, MemoryEventLog
from loops import foreign

PATIENCE = 30.0
OTHER: Any = {"user_id": "u", "session_id": "other"}


def responses(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was told of its calls, in its last request."""
    return [
        dict(response.response)
        for content in model.requests[-1].contents
        for response in content.function_responses
    ]


def texts(log: EventLog) -> str:
    """All that is in the session, as text."""
    return "\n".join(str(record.data) for record in records(log))


def test_an_async_tool_answers_the_model() -> None:
    async def look(where: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"seen": where}

    model = ScriptedModel(calls(("look", {"where": "here"})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"seen": "here"}]


def test_an_async_tool_runs_on_the_loop_that_the_runner_is_given_after_its_start_up() -> None:
    order = list[Any]()

    async def start_up() -> None:
        order.append(asyncio.get_running_loop())

    async def look() -> str:
        order.append(asyncio.get_running_loop())
        return "seen"

    model = ScriptedModel(calls(("look", {}), ("look", {})), "done")
    with (
        foreign() as loop,
        Runner(app_with(model, look), log=MemoryEventLog(), loop=loop, on_startup=start_up) as runner,
    ):
        runner.run(**KEY, message="hi").answer(PATIENCE)

    assert order == [loop, loop, loop]


def test_an_async_tool_has_the_context_variables_and_the_scope_of_its_run() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen = list[Any]()

    async def look(tool_context: ToolContext) -> str:
        await asyncio.sleep(0)
        scope = tool_context.cancellation
        seen.extend([who.get(), type(scope).current() is scope])
        return "seen"

    with Runner(app_with(ScriptedModel(calls(("look", {})), "done"), look), log=MemoryEventLog()) as runner:
        token = who.set("me")
        run = runner.run(**KEY, message="hi")
        who.reset(token)
        run.answer(PATIENCE)

    assert seen == ["me", True]


@pytest.mark.parametrize("mode", [ToolExecution.SEQUENTIAL, ToolExecution.PARALLEL])
def test_no_thread_is_held_while_an_async_tool_runs(mode: ToolExecution) -> None:
    gate = AsyncGate()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    model = ScriptedModel(calls(("wait", {}), ("wait", {})), "other", "done")
    config = RunConfig(tool_execution=mode)
    with Runner(app_with(model, wait), log=MemoryEventLog(), workers=1) as runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        gate.arrived(1)
        assert runner.run(**OTHER, message="hi").answer(PATIENCE) == "other"
        gate.open()
        assert run.answer(PATIENCE) == "done"


def test_no_thread_is_held_while_an_async_hook_waits() -> None:
    gate = AsyncGate()

    def look() -> str:
        return "seen"

    async def before(*args: Any) -> None:
        await gate.wait()

    model = ScriptedModel(calls(("look", {})), "other", "done")
    agent = LlmAgent("agent", model, tools=[look], before_tool_callback=before)
    with Runner(app_of(agent), log=MemoryEventLog(), workers=1) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert runner.run(**OTHER, message="hi").answer(PATIENCE) == "other"
        gate.open()
        assert run.answer(PATIENCE) == "done"


@pytest.mark.scenario("A10")
@pytest.mark.parametrize("mode", [ToolExecution.SEQUENTIAL, ToolExecution.PARALLEL])
def test_a_cancel_ends_a_run_whose_async_tool_waits_for_ever(mode: ToolExecution) -> None:
    begun, ended = threading.Event(), list[str]()

    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("closed")
        return "never"

    model = ScriptedModel(calls(("wait", {})), "again")
    config = RunConfig(tool_execution=mode)
    with Runner(app_with(model, wait), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=config)
        shown = threading.Thread(target=lambda: ended.extend(str(e.author) for e in run))
        shown.start()
        assert begun.wait(PATIENCE)
        run.cancel("enough")
        shown.join(PATIENCE)

        assert not shown.is_alive()
        assert run.status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)
        assert "closed" in ended
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"


@pytest.mark.scenario("A15")
def test_a_tool_that_swallows_its_cancel_changes_nothing_and_is_residual_until_it_ends() -> None:
    begun, ending, log = threading.Event(), AsyncGate(), MemoryEventLog()

    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ending.wait()
        return "all is well"

    model = ScriptedModel(calls(("stubborn", {})))
    with Runner(app_with(model, stubborn), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        run.cancel()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        ending.arrived()
        assert not run.wait_terminated(0)
        assert [piece.name for piece in runner.residual() if piece.what == "tool"] == ["stubborn"]
        ending.open()
        assert run.wait_terminated(PATIENCE)
        assert runner.residual() == []

    assert "all is well" not in texts(log)
    assert len(model.requests) == 1


@pytest.mark.scenario("A14")
def test_one_of_three_async_calls_is_cancelled_and_the_others_are_answered() -> None:
    gate, cancelled, told = AsyncGate(), list[str](), threading.Event()

    async def look(where: str) -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancelled.append(where)
            told.set()
            raise
        return where

    model = ScriptedModel(calls(*(("look", {"where": where}) for where in "abc")), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived(3)
        ids = [call.id for call in runner.sessions.events(**KEY)[-1].function_calls]
        assert run.cancel_call(ids[1], "not this one")
        assert told.wait(PATIENCE)
        gate.open()
        assert run.answer(PATIENCE) == "done"

    first, second, third = responses(model)
    assert (first, third) == ({"result": "a"}, {"result": "c"})
    assert second["status"] == "stopped"
    assert "not this one" in second["message"]
    assert cancelled == ["b"]
    assert len(model.requests) == 2


@pytest.mark.parametrize("mode", [ToolExecution.SEQUENTIAL, ToolExecution.PARALLEL])
def test_an_async_call_that_takes_too_long_is_given_up_and_its_task_cancelled(mode: ToolExecution) -> None:
    clock, begun, cancelled = ManualClock(), threading.Event(), threading.Event()

    async def look() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    model = ScriptedModel(calls(("look", {})), "done")
    config = RunConfig(tool_timeout=5, tool_execution=mode)
    with Runner(app_with(model, look), log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        assert begun.wait(PATIENCE)
        clock.advance(5)
        assert run.answer(PATIENCE) == "done"
        assert cancelled.wait(PATIENCE)

    assert [one["status"] for one in responses(model)] == ["timeout"]


def test_a_start_up_that_fails_fails_the_run_whose_tool_waits_for_it() -> None:
    async def start_up() -> None:
        raise ConnectionError("nobody there")

    async def look() -> str:
        return "seen"

    model = ScriptedModel(calls(("look", {})), "done")
    app = app_with(model, look)
    with (
        Runner(app, log=MemoryEventLog(), on_startup=start_up) as runner,
        pytest.raises(ToolFailedError, match="nobody there"),
    ):
        runner.run(**KEY, message="hi").answer(PATIENCE)


def test_a_system_exit_of_an_async_tool_fails_the_run_and_cancels_its_siblings() -> None:
    gate, go, ended = AsyncGate(), AsyncGate(), threading.Event()

    async def wait() -> str:
        try:
            await gate.wait()
        finally:
            ended.set()
        return "never"

    async def leave() -> None:
        await go.wait()
        raise SystemExit(3)

    model = ScriptedModel(calls(("wait", {}), ("leave", {})), "again")
    with Runner(app_with(model, wait, leave), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        go.open()
        with pytest.raises(ActorCrashError, match="SystemExit: 3"):
            run.answer(PATIENCE)
        assert ended.wait(PATIENCE)
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"


def test_a_tool_that_sleeps_on_its_scope_is_woken_by_a_cancel_and_told_why() -> None:
    begun, reasons = threading.Event(), list[str]()

    async def sleep(tool_context: ToolContext) -> None:
        begun.set()
        try:
            await tool_context.cancellation.asleep(3600)
        except Cancelled as cancelled:
            reasons.append(cancelled.reason)
            raise

    with Runner(app_with(ScriptedModel(calls(("sleep", {}))), sleep), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        run.cancel("enough")
        assert run.wait_terminated(PATIENCE)

    assert reasons == ["enough"]


def test_a_plain_function_may_return_an_awaitable() -> None:
    async def seen(where: str) -> str:
        await asyncio.sleep(0)
        return where

    def look(where: str) -> Any:
        return seen(where)

    model = ScriptedModel(calls(("look", {"where": "a"}), ("look", {"where": "b"})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"result": "a"}, {"result": "b"}]


def test_a_future_that_already_runs_is_residual_until_it_is_done() -> None:
    gate = Gate()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def look() -> Any:
            return pool.submit(gate.wait)

        with Runner(app_with(ScriptedModel(calls(("look", {}))), look), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hi").start()
            gate.arrived()
            run.cancel()
            assert run.result(PATIENCE).status is RunStatus.CANCELLED
            assert not run.wait_terminated(0)
            assert [piece.name for piece in runner.residual() if piece.what == "tool"] == ["look"]
            gate.open()
            assert run.wait_terminated(PATIENCE)


def test_a_call_that_is_given_up_before_its_awaitable_is_there_never_awaits_it() -> None:
    gate, awaited = Gate(), list[int]()

    async def later() -> None:
        awaited.append(1)

    def look() -> Any:
        gate.wait()
        return later()

    model = ScriptedModel(calls(("look", {})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (call,) = runner.sessions.events(**KEY)[-1].function_calls
        assert run.cancel_call(call.id)
        assert run.answer(PATIENCE) == "done"
        gate.open()
        assert run.wait_terminated(PATIENCE)

    assert awaited == []


def test_a_tool_that_blocks_its_loop_holds_up_no_tool_after_it(caplog: pytest.LogCaptureFixture) -> None:
    clock, gate = ManualClock(), Gate()

    async def block() -> None:
        gate.wait()

    async def look() -> str:
        return "seen"

    model = ScriptedModel(calls(("block", {})), calls(("look", {})), "other", "done")
    with Runner(app_with(model, block, look), log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        clock.advance(1)
        clock.advance(1)
        assert runner.run(**OTHER, message="hi").answer(PATIENCE) == "other"
        gate.open()
        assert run.answer(PATIENCE) == "done"

    assert "block blocks it" in caplog.text
