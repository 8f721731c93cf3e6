"""User code may block for as long as it likes, wherever it is called: no other run waits for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps import app_of
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Call, Fork, RunAgent, Steps, call_tools
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate
from intermission_storage import LmdbEventLog

PATIENCE = 30.0


class Blocks:
    """Stands at a gate when it is asked, wherever a test puts it."""

    name = "blocks"

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self) -> str:
        """Block, as a tool or a function."""
        self.gate.wait()
        return "done"

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """Block, as a model."""
        self.gate.wait()
        yield ModelResponse(content=Content.model("done"))


class Open(Blocks):
    """Blocks nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.open()


class Agent(BaseAgent):
    """Says a word, blocks as `steps` says if its user is told to, and says another."""

    def __init__(self, steps: Callable[[AgentContext], Steps]) -> None:
        super().__init__("agent")
        self._steps = steps

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield context.event(self.name, content=Content.model("before"))
        if context.session_id == "blocked":
            yield from self._steps(context)
        yield context.event(self.name, content=Content.model("after"))


def in_the_generator(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def steps(context: AgentContext) -> Steps:
        blocks()
        yield from ()

    return steps


def in_a_handler(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def steps(context: AgentContext) -> Steps:
        try:
            yield context.event("user", content=Content.model("refused"))
        except ValueError:
            blocks()

    return steps


def in_a_call(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def steps(context: AgentContext) -> Steps:
        yield Call(blocks)

    return steps


def in_a_tool(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def block() -> str:
        return blocks()

    def steps(context: AgentContext) -> Steps:
        yield from call_tools([FunctionCall("c-1", "block", {})], {"block": FunctionTool(block)})

    return steps


def in_a_model(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def steps(context: AgentContext) -> Steps:
        yield RunAgent(LlmAgent("asks", blocks))

    return steps


def in_a_branch(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def steps(context: AgentContext) -> Steps:
        yield Fork([LlmAgent("asks", blocks)])

    return steps


def in_run_itself(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    class Late(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            blocks()
            return in_the_generator(Open())(context)

    def steps(context: AgentContext) -> Steps:
        yield RunAgent(Late("late"))

    return steps


def in_what_wraps_run(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    agent = LlmAgent("asks", Open())
    run = agent.run

    def traced(context: AgentContext) -> Steps:
        blocks()
        return run(context)

    def steps(context: AgentContext) -> Steps:
        agent.run = traced  # type: ignore[method-assign]  # as what instruments a program does
        yield RunAgent(agent)

    return steps


def in_what_stands_for_run(blocks: Blocks) -> Callable[[AgentContext], Steps]:
    def traced(context: AgentContext) -> Steps:
        yield from in_the_generator(blocks)(context)

    def steps(context: AgentContext) -> Steps:
        agent = LlmAgent("asks", Open())
        agent.run = traced  # type: ignore[method-assign]  # as above
        yield RunAgent(agent)

    return steps


@pytest.mark.parametrize(
    "where",
    [
        in_the_generator,
        in_a_handler,
        in_a_call,
        in_a_tool,
        in_a_model,
        in_a_branch,
        in_run_itself,
        in_what_wraps_run,
        in_what_stands_for_run,
    ],
)
def test_a_run_that_blocks_delays_no_other(
    tmp_path: Path, where: Callable[[Blocks], Callable[[AgentContext], Steps]]
) -> None:
    blocks = Blocks()
    with (
        LmdbEventLog(tmp_path / "log", sync=False) as log,
        Runner(app_of(Agent(where(blocks))), log=log) as runner,
    ):
        blocked = runner.run(user_id="u", session_id="blocked", message="hi").start()
        blocks.gate.arrived()
        for number in range(3):
            assert runner.run(user_id="u", session_id=f"s-{number}", message="hi").answer(PATIENCE) == "after"
        assert blocked.state == "running"
        blocks.gate.open()
        assert blocked.answer(PATIENCE) == "after"


def test_an_agent_that_blocks_while_it_is_closed_delays_no_other_run(tmp_path: Path) -> None:
    blocks, waits = Blocks(), Gate()

    def steps(context: AgentContext) -> Steps:
        try:
            yield Call(waits.wait)
        finally:
            blocks()

    with LmdbEventLog(tmp_path / "log", sync=False) as log, Runner(app_of(Agent(steps)), log=log) as runner:
        blocked = runner.run(user_id="u", session_id="blocked", message="hi").start()
        waits.arrived()
        blocked.cancel()
        blocks.gate.arrived()
        for number in range(3):
            assert runner.run(user_id="u", session_id=f"s-{number}", message="hi").answer(PATIENCE) == "after"
        assert blocked.result(PATIENCE).status is RunStatus.CANCELLED
        waits.open()
        blocks.gate.open()
        assert blocked.wait_terminated(PATIENCE)
