"""What blocks in one session holds up no other: neither its workers, nor its actor, nor the event loop."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps import KEY, app_of, app_with
from intermission import (
    Actor,
    AgentContext,
    App,
    BaseAgent,
    Content,
    Run,
    Runner,
    RunStarted,
    ToolContext,
)
from intermission.agents.effects import Steps
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from scale import rounds

RUNS = rounds(30, 500)
BOUND = 0.5  # seconds; one run takes about 2 ms here, and a busy machine is slow

Blocks = tuple[App, Callable[[Runner], object]]
"""An app, and what starts something that blocks at the gate; what that returns is kept meanwhile."""


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


class Computing(BaseAgent):
    """Blocks between two effects, if its user says "block"."""

    def __init__(self, gate: Gate) -> None:
        super().__init__("computing")
        self.gate = gate

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        if context.events[-1].text == "block":
            self.gate.wait()
        yield context.event(self.name, content=Content.model("ok"))


class Blocked(Actor):
    """Blocks in the message of a run's start, if it is of the session that blocks."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def on_receive(self, message: object) -> None:
        """See `Actor`."""
        if isinstance(message, RunStarted) and message.session_id == KEY["session_id"]:
            self.gate.wait()


def begin(runner: Runner) -> Run:
    """Start the run that blocks."""
    return runner.run(**KEY, message="block").start()


def tool(gate: Gate) -> Blocks:
    """A tool that blocks."""

    def work() -> str:
        gate.wait()
        return "worked"

    return app_with(ScriptedModel(calls(("work", {})), default="ok"), work), begin


def model(gate: Gate) -> Blocks:
    """A model that blocks."""
    return app_with(ScriptedModel(text(gate, "ok"), default="ok")), begin


def agent(gate: Gate) -> Blocks:
    """An agent that blocks between two effects."""
    return app_of(Computing(gate)), begin


def subscriber(gate: Gate) -> Blocks:
    """A subscriber of a run that blocks."""

    def subscribe(runner: Runner) -> object:
        return runner.run(**KEY, message="hi").subscribe(lambda _: gate.wait())

    return app_with(ScriptedModel(default="ok")), subscribe


def actor(gate: Gate) -> Blocks:
    """An actor that is told of runs and blocks."""

    def listen(runner: Runner) -> object:
        runner.system.subscribe(runner.system.start(Blocked, gate), RunStarted)
        return begin(runner)

    return app_with(ScriptedModel(default="ok")), listen


def cancel_hook(gate: Gate) -> Blocks:
    """A hook on a cancelled scope that blocks."""
    ready = Gate()

    def work(tool_context: ToolContext) -> str:
        tool_context.cancellation.on_cancel(gate.wait)
        ready.wait()
        return "worked"

    def cancel(runner: Runner) -> object:
        run = begin(runner)
        ready.arrived()
        run.cancel()
        ready.open()
        return run

    return app_with(ScriptedModel(calls(("work", {})), default="ok"), work), cancel


async def others(runner: Runner) -> list[float]:
    """Run in another session, one run after another, and return how long each step of the loop took."""
    steps, over = list[float](), asyncio.Event()

    async def beat() -> None:
        while not over.is_set():
            before = time.monotonic()
            await asyncio.sleep(0)
            steps.append(time.monotonic() - before)

    heart = asyncio.ensure_future(beat())
    for number in range(RUNS):
        before = time.monotonic()
        run = runner.run(user_id="u", session_id=f"other {number % 3}", message="go")
        assert await run.aanswer(PATIENCE) == "ok"
        steps.append(time.monotonic() - before)
    over.set()
    await heart
    return steps


@pytest.mark.scenario("J4")
@pytest.mark.parametrize("blocks", [tool, model, agent, subscriber, actor, cancel_hook])
def test_what_blocks_in_one_session_delays_no_run_of_another_and_no_step_of_the_event_loop(
    blocks: Callable[[Gate], Blocks], gate: Gate
) -> None:
    app, start = blocks(gate)
    with Runner(app, log=MemoryEventLog()) as runner:
        kept: Any = start(runner)
        gate.arrived()
        steps = asyncio.run(others(runner))
        assert gate.arrivals == 1
        gate.open()
        del kept
    assert max(steps) < BOUND
