"""The effect `Call`: any function, plain or async, called for an agent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apps import KEY, app_of
from async_gates import AsyncGate
from intermission import (
    AgentContext,
    BaseAgent,
    Cancelled,
    Content,
    IntermissionError,
    LlmAgent,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Call, Steps
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

PATIENCE = 30.0


class Calling(BaseAgent):
    """Calls a function, and says what came of it."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        super().__init__("caller")
        self.call = Call(function, *args)

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            said = yield self.call
        except (IntermissionError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
        yield context.event(self.name, content=Content.model(str(said)))


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


async def cancel_itself(error: type[BaseException]) -> None:
    raise error


def cancel_itself_at_once(error: type[BaseException]) -> None:
    raise error


def later() -> Awaitable[int]:
    return double(3)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (double, (2,), "4"),
        (later, (), "6"),
        (abs, (-1,), "1"),
        (fail, (), "ValueError: no"),
        (cancel_itself, (asyncio.CancelledError,), "UnrequestedCancelError: the function cancel_itself"),
        (cancel_itself, (Cancelled,), "UnrequestedCancelError: the function cancel_itself"),
        (cancel_itself_at_once, (Cancelled,), "UnrequestedCancelError: the function cancel_itself_at_once"),
    ],
)
def test_a_call_answers_what_its_function_returns_or_raises_also_when_that_is_awaited(
    function: Callable[..., Any], args: tuple[Any, ...], said: str
) -> None:
    with Runner(app_of(Calling(function, *args)), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE).split(" was ")[0] == said


def test_a_call_that_is_awaited_ends_with_its_run() -> None:
    gate = AsyncGate()
    with Runner(app_of(Calling(gate.wait)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert run.wait_terminated(PATIENCE)


class Polite(LlmAgent):
    """Says more than the agent that it extends."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield from super().run(context)
        yield context.event(self.name, content=Content.model("You are welcome."))


def test_an_agent_that_says_more_than_the_one_that_it_extends_has_all_of_it_stored() -> None:
    with Runner(app_of(Polite("clerk", ScriptedModel("7"))), log=MemoryEventLog()) as runner:
        assert [event.text for event in runner.run(**KEY, message="hi")] == ["7", "You are welcome."]
