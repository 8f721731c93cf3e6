"""Whatever is stuck, who cancels is free at once, the end is stored, and others go on."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from apps import KEY, Key, app_of, app_with, records
from intermission import AgentTool, LlmAgent, Run, Runner, RunStatus, ToolContext, tool
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until
from waiting import WAITS

AT_ONCE = 5.0  # seconds, on a machine that does many other things; what is measured stands on the page
HOOKS = 256  # of the pool that runs hooks of `on_cancel`


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def key(number: int) -> Key:
    """A session."""
    return {"user_id": "u", "session_id": str(number)}


def assert_at_once(*actions: Callable[[], object]) -> None:
    """Do one after another, and assert that none takes its time."""
    for action in actions:
        before = time.monotonic()
        action()
        assert time.monotonic() - before < AT_ONCE


def test_with_every_worker_blocked_a_cancel_returns_at_once_and_its_end_is_stored(gate: Gate) -> None:
    def stuck() -> None:
        gate.wait()

    log = MemoryEventLog()
    model = ScriptedModel(default=calls(("stuck", {})))
    with Runner(app_with(model, stuck), log=log, workers=4) as runner:
        runs = [runner.run(**key(number), message="hi").start() for number in range(4)]
        gate.arrived(4)
        runs += [runner.run(**key(number), message="hi").start() for number in range(4, 8)]
        workers = runner._services.workers  # pyright: ignore[reportPrivateUsage]  # to see the line
        until(lambda: workers.waiting == 4)
        for number, run in enumerate(runs):
            assert_at_once(run.cancel, partial(run.result, AT_ONCE))
            assert run.status is RunStatus.CANCELLED
            assert records(log, **key(number))[-1].kind == "run_ended"
        assert len(model.requests) == 4  # nothing that stood in line was begun
        gate.open()
        assert [run.wait_terminated(PATIENCE) for run in runs] == [True] * 8


def hooked(gate: Gate, count: int) -> tuple[Callable[..., None], Callable[..., None], threading.Event]:
    """A tool with hooks that do not return, another with one that sets an event, and that event."""
    told = threading.Event()

    def many(tool_context: ToolContext) -> None:
        for _ in range(count):
            tool_context.cancellation.on_cancel(gate.wait)
        tool_context.cancellation.wait()

    def one(tool_context: ToolContext) -> None:
        tool_context.cancellation.on_cancel(told.set)
        tool_context.cancellation.wait()

    return many, one, told


def started(runner: Runner, number: int, log: MemoryEventLog) -> Run:
    """A run whose call has begun, in a session of its own."""
    run = runner.run(**key(number), message="hi").start()
    until(lambda: any(record.kind == "call_started" for record in records(log, **key(number))))
    return run


def test_forty_hooks_that_never_return_hold_up_neither_the_caller_nor_the_hook_of_another_call(
    gate: Gate,
) -> None:
    many, one, told = hooked(gate, 40)
    log, model = MemoryEventLog(), ScriptedModel(calls(("many", {})), calls(("one", {})), default="ok")
    with Runner(app_with(model, many, one), log=log) as runner:
        stuck = started(runner, 1, log)
        other = started(runner, 2, log)
        assert_at_once(stuck.cancel, lambda: stuck.result(AT_ONCE))
        gate.arrived(40)
        assert_at_once(other.cancel, lambda: told.wait(AT_ONCE), lambda: other.wait_terminated(AT_ONCE))
        assert told.is_set()
        assert [work.what for work in runner.residual()] == ["hook"] * 40
        assert not stuck.wait_terminated(0)
        gate.open()
        assert stuck.wait_terminated(PATIENCE)


def test_hooks_beyond_the_bound_are_rejected_and_logged_and_hold_up_nobody(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    many, _, _ = hooked(gate, HOOKS + 44)
    log, model = MemoryEventLog(), ScriptedModel(calls(("many", {})), default="ok")
    with Runner(app_with(model, many), log=log) as runner, caplog.at_level(logging.ERROR):
        run = started(runner, 1, log)
        assert_at_once(run.cancel, lambda: run.result(AT_ONCE))
        gate.arrived(HOOKS)
        rejected = "a hook on a cancelled scope was not run: too many are stuck"
        until(lambda: sum(rejected in line for line in caplog.messages) == 44)
        assert len(runner.residual()) == HOOKS
        gate.open()
        assert run.wait_terminated(PATIENCE)
    assert gate.arrivals == HOOKS


class Layers:
    """Runs that each wait in another layer, in sessions of their own."""

    def __init__(self, stack: ExitStack) -> None:
        self.begun, self.gate = Gate(), Gate()
        self.begun.open()
        stack.callback(self.gate.open)
        waits: list[Callable[..., Any]] = [self._waits(wait.begin(stack)) for wait in WAITS]
        nested = LlmAgent("nested", ScriptedModel(calls(("sleeps", {}))), tools=[self.sleeps])
        others: list[Callable[..., Any]] = [self.sleeps, self.sleeps_on_the_loop]
        others += [self.does_not_look, self.awaits]
        self.agents = [
            *[self._calling(each) for each in [*waits, *others]],
            LlmAgent("agent", ScriptedModel(calls(("nested", {"request": "go"}))), tools=[AgentTool(nested)]),
            LlmAgent("agent", ScriptedModel(text("o", self.gate, "k"))),
        ]

    def _calling(self, function: Callable[..., Any]) -> LlmAgent:
        made = tool(name="work")(function)
        return LlmAgent("agent", ScriptedModel(calls(("work", {}))), tools=[made])

    def _waits(self, waiter: Callable[..., object]) -> Callable[[], None]:
        def wait() -> None:
            self.begun.wait()
            waiter()

        return wait

    def sleeps(self, tool_context: ToolContext) -> None:
        """Sleep."""
        self.begun.wait()
        tool_context.cancellation.sleep(3600)

    async def sleeps_on_the_loop(self, tool_context: ToolContext) -> None:
        """Sleep on the loop."""
        self.begun.wait()
        await tool_context.cancellation.asleep(3600)

    async def awaits(self) -> None:
        """Await what never comes."""
        self.begun.wait()
        await asyncio.Event().wait()

    def does_not_look(self) -> None:
        """Not look at the cancel."""
        self.begun.wait()
        self.gate.wait()


async def cancelled_under_a_heartbeat(runs: list[Run]) -> float:
    """Cancel all at once, and return the longest step of the loop meanwhile."""
    steps, over = list[float](), asyncio.Event()

    async def beat() -> None:
        while not over.is_set():
            before = time.monotonic()
            await asyncio.sleep(0)
            steps.append(time.monotonic() - before)

    heart = asyncio.ensure_future(beat())
    await asyncio.gather(*[run.acancel("enough") for run in runs])
    results = await asyncio.gather(*[run.aresult(PATIENCE) for run in runs])
    over.set()
    await heart
    assert {result.status for result in results} == {RunStatus.CANCELLED}
    return max(steps)


def test_while_runs_are_cancelled_in_every_layer_the_event_loop_never_stalls() -> None:
    with ExitStack() as stack:
        layers = Layers(stack)
        runners = [
            stack.enter_context(Runner(app_of(agent), log=MemoryEventLog())) for agent in layers.agents
        ]
        runs = [runner.run(**KEY, message="hi").start() for runner in runners]
        layers.begun.arrived(len(runs) - 1)
        layers.gate.arrived(2)  # the tool that does not look, and the model
        assert asyncio.run(cancelled_under_a_heartbeat(runs)) < 1.0
        layers.gate.open()
        assert [run.wait_terminated(PATIENCE) for run in runs] == [True] * len(runs)
