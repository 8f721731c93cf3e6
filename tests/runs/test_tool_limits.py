"""Limits of tools: their time, the threads of those that hang, hooks that are given up with their call."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from apps import KEY, app_of, app_with, records
from async_gates import AsyncGate
from intermission import CancelSource, LlmAgent, RunConfig, Runner, RunStatus, tool
from intermission.config import ToolExecution
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import Kind, MemoryEventLog
from turns import PATIENCE, answers, responses

AT_ONCE = 5.0  # seconds, on a machine that does many other things


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def test_a_tools_own_limit_goes_before_the_runs(gate: Gate) -> None:
    clock, waits = ManualClock(), AsyncGate()

    @tool(timeout=2)
    def short() -> None:
        gate.wait()

    @tool(timeout=20)
    async def long() -> str:
        await waits.wait()
        return "long"

    @tool
    def plain() -> None:
        gate.wait()

    model = ScriptedModel(calls(("short", {}), ("long", {}), ("plain", {})), "done")
    config = RunConfig(tool_timeout=10, tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    log = MemoryEventLog()
    with Runner(app_with(model, short, long, plain), log=log, clock=clock, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived(2)
        waits.arrived()
        clock.advance(2)
        until_given_up(runner, 1)
        clock.advance(8)
        until_given_up(runner, 2)
        waits.open()
        assert run.answer(PATIENCE) == "done"
        gate.open()
        assert run.wait_terminated(PATIENCE)

    first, second, third = responses(model)
    assert (first["status"], third["status"]) == ("timeout", "timeout")
    assert "it took longer than 2 s. It may or may not have had its effect" in first["message"]
    assert "it took longer than 10 s" in third["message"]
    assert second == {"result": "long"}


def until_given_up(runner: Runner, count: int) -> None:
    """Wait until so many tool calls are residual."""
    never = threading.Event()
    for _ in range(30_000):
        if len([work for work in runner.residual() if work.what == "tool"]) >= count:
            return
        never.wait(0.001)
    raise AssertionError(f"only {runner.residual()} were given up within 30 s")


@pytest.mark.scenario("F6")
def test_a_tool_that_has_taken_too_long_is_not_tried_again_and_its_outcome_is_unknown(gate: Gate) -> None:
    clock, effects, log = ManualClock(), list[str](), MemoryEventLog()

    def pay() -> str:
        effects.append("paid")
        gate.wait()
        return "paid"

    model = ScriptedModel(calls(("pay", {})), "done")
    config = RunConfig(tool_timeout=5)
    with Runner(app_with(model, pay), log=log, clock=clock, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        clock.advance(5)
        assert run.answer(PATIENCE) == "done"
        gate.open()
        assert run.wait_terminated(PATIENCE)
        (ended,) = [record.data for record in records(log) if record.kind == Kind.CALL_FINISHED]

    (told,) = responses(model)
    assert effects == ["paid"]
    assert (told["status"], told["outcome"], ended["outcome"]) == ("timeout", "unknown", "unknown")
    assert len(model.requests) == 2


@pytest.mark.scenario("F1")
def test_a_hundred_tools_in_a_row_that_hang_keep_no_later_one_from_its_thread(gate: Gate) -> None:
    clock, count = ManualClock(), 100

    @tool(timeout=0.5)
    def hang() -> None:
        gate.wait()

    def look() -> str:
        looked.append(time.monotonic())
        return "seen"

    looked = list[float]()
    model = ScriptedModel(*[calls(("hang", {}))] * count, calls(("look", {})), "done")
    with Runner(app_with(model, hang, look), log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi").start()
        for number in range(1, count + 1):
            gate.arrived(number)
            clock.advance(0.5)
        given_up = time.monotonic()
        assert run.answer(PATIENCE) == "done"
        assert looked[0] - given_up < AT_ONCE
        assert len([work for work in runner.residual() if work.name == "hang"]) == count
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert runner.residual() == []

    told = responses(model)
    assert [one["status"] for one in told[:-1]] == ["timeout"] * count
    assert told[-1] == {"result": "seen"}


@pytest.mark.scenario("F1")
def test_tools_that_hang_on_all_threads_end_the_run_as_an_overload_that_says_so(gate: Gate) -> None:
    clock = ManualClock()

    @tool(timeout=0.5)
    def hang() -> None:
        gate.wait()

    model = ScriptedModel(default=calls(("hang", {})))
    log = MemoryEventLog()
    with Runner(app_with(model, hang), log=log, clock=clock, workers=3, worker_wait=5) as runner:
        run = runner.run(**KEY, message="hi").start()
        for number in range(1, 4):
            gate.arrived(number)
            clock.advance(0.5)
        workers = runner._services.workers  # pyright: ignore[reportPrivateUsage]  # there is no other way to see it
        never = threading.Event()
        while not workers.waiting:
            never.wait(0.001)
        clock.advance(5)
        result = run.result(PATIENCE)
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.OVERLOAD
        assert [work.name for work in runner.residual() if work.what == "tool"] == ["hang"] * 3
        gate.open()
        assert run.wait_terminated(PATIENCE)

    assert result.status is RunStatus.CANCELLED
    assert "no worker was free in time" in result.reason


@pytest.mark.parametrize("how", ["timeout", "cancel_call", "cancel"])
@pytest.mark.parametrize("which", ["before", "after"])
def test_a_hook_that_blocks_is_given_up_with_its_call_and_is_residual_until_it_returns(
    how: str, which: str, gate: Gate
) -> None:
    clock, ran, late = ManualClock(), list[str](), list[str]()

    def block(*args: Any) -> None:
        gate.wait()

    def note(*args: Any) -> None:
        late.append("after")

    async def look() -> str:
        ran.append("look")
        return "seen"

    callbacks: dict[str, Any] = {"after_tool_callback": note, f"{which}_tool_callback": [block, note]}
    model = ScriptedModel(calls(("look", {})), "done")
    agent = LlmAgent("agent", model, tools=[look], **callbacks)
    config = RunConfig(tool_timeout=5)
    with Runner(app_of(agent), log=MemoryEventLog(), clock=clock, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (call,) = runner.sessions.events(**KEY)[-1].function_calls
        if how == "timeout":
            clock.advance(5)
        elif how == "cancel_call":
            assert run.cancel_call(call.id)
        else:
            run.cancel()
        result = run.result(PATIENCE)
        assert not run.wait_terminated(0)
        assert [work.name for work in runner.residual() if work.what == "tool"] == ["look"]
        gate.open()
        assert run.wait_terminated(PATIENCE)

    assert (ran, late) == ([] if which == "before" else ["look"], [])
    if how == "cancel":
        assert result.status is RunStatus.CANCELLED
    else:
        assert [one["outcome"] for one in answers(result)] == ["unknown"]


@pytest.mark.parametrize("hook", ["on_tool_error_callback", "after_tool_callback"])
def test_an_async_call_that_is_given_up_is_no_failure_that_hooks_hear_of(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate, asked = AsyncGate(), list[str]()

    def ask(*args: Any) -> None:
        asked.append(hook)

    async def look() -> None:
        await gate.wait()

    model = ScriptedModel(calls(("look", {})), "done")
    callbacks: dict[str, Any] = {hook: ask}
    agent = LlmAgent("agent", model, tools=[look], **callbacks)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (call,) = runner.sessions.events(**KEY)[-1].function_calls
        assert run.cancel_call(call.id)
        assert run.answer(PATIENCE) == "done"
        assert run.wait_terminated(PATIENCE)

    assert (asked, caplog.records) == ([], [])


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_tool_that_cancels_itself_has_raised_an_exception_for_the_callback_on_errors(kind: str) -> None:
    errors: list[Exception] = []

    def look() -> None:
        raise asyncio.CancelledError

    async def look_later() -> None:
        look()

    def failed(tool: Any, args: Any, context: Any, error: Exception) -> dict[str, Any]:
        errors.append(error)
        return {"sorry": 1}

    tool = look if kind == "plain" else look_later
    model = ScriptedModel(calls((tool.__name__, {})), "done")
    agent = LlmAgent("agent", model, tools=[tool], on_tool_error_callback=failed)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "done"

    assert responses(model) == [{"sorry": 1}]
    (error,) = errors
    assert isinstance(error, Exception)
    assert isinstance(error.__cause__, asyncio.CancelledError)


def test_a_tool_does_not_begin_behind_a_hook_that_swallows_the_cancel_of_its_call() -> None:
    begun, ran = AsyncGate(), list[str]()

    async def before(*args: Any) -> None:
        with suppress(asyncio.CancelledError):
            await begun.wait()

    def look() -> None:
        ran.append("look")

    model = ScriptedModel(calls(("look", {})), "done")
    agent = LlmAgent("agent", model, tools=[look], before_tool_callback=before)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        begun.arrived()
        (call,) = runner.sessions.events(**KEY)[-1].function_calls
        assert run.cancel_call(call.id)
        assert run.answer(PATIENCE) == "done"
        assert run.wait_terminated(PATIENCE)

    assert ran == []


def test_a_call_that_waits_for_a_thread_when_another_fails_was_not_begun(gate: Gate) -> None:
    fails, other = AsyncGate(), Gate()

    def block() -> None:
        gate.wait()

    def block_others() -> None:
        other.wait()

    async def fail() -> None:
        await fails.wait()
        raise ValueError("no")

    model = ScriptedModel(
        calls(("block_others", {})), calls(("fail", {}), ("block", {}), ("block", {})), "other"
    )
    config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    app = app_with(model, block, block_others, fail)
    with Runner(app, log=MemoryEventLog(), config=config, workers=2) as runner:
        holding = runner.run(user_id="u", session_id="other", message="hi").start()
        other.arrived()
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        fails.open()
        until_given_up(runner, 2)
        other.open()
        result = run.result(PATIENCE)
        assert holding.answer(PATIENCE) == "other"
        gate.open()
        assert run.wait_terminated(PATIENCE)

    _, second, third = answers(result)
    assert (second["outcome"], third["outcome"]) == ("unknown", "not_started")
    assert "It was not begun" in third["message"]
