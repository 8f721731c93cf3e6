"""Runs call whatever they like, and are ended at random: each request that is sent is legal by all rules."""

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from apps import KEY, app_of
from desk import PATIENCE, assert_legal
from intermission import (
    AgentTool,
    Content,
    FunctionCall,
    LlmAgent,
    OnToolFailure,
    Run,
    RunConfig,
    Runner,
    ToolContext,
    ToolExecution,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import FaultyLog
from scale import rounds

ROUNDS = rounds(40, 1000)
TURNS = 5
MODES = list(ToolExecution)
FAILURES = list(OnToolFailure)
_never = threading.Event()


class AnyModel:
    """Says anything, calls anything, and keeps what it was asked."""

    name = "any"

    def __init__(self, chance: random.Random, tools: Sequence[str], agents: Sequence[str]) -> None:
        self._chance = chance
        self._tools = tools
        self._agents = agents
        self.requests: list[ModelRequest] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.requests.append(request)
        pause(self._chance)
        if self._chance.random() < 0.05:
            raise ValueError("no")
        text = self._chance.choice(["", "", "Well.", " \n"])
        asked = [self._call() for _ in range(self._chance.choice([0, 1, 1, 2, 3, 4]))]
        if request.streaming and text:
            yield ModelResponse(content=Content.model(text), partial=True)
            pause(self._chance)
        yield ModelResponse(content=Content.model(text, calls=asked))

    def _call(self) -> FunctionCall:
        # What providers give: no ids, or ones that they repeat.
        call_id = self._chance.choice(["", "call_0", "call_1"])
        if self._agents and self._chance.random() < 0.15:
            return FunctionCall(
                call_id, "transfer_to_agent", {"agent_name": self._chance.choice(self._agents)}
            )
        name = self._chance.choice([*self._tools, "no such tool"])
        return FunctionCall(call_id, name, {"request": "?"} if name == "expert" else {})


def pause(chance: random.Random) -> None:
    """Let others come before."""
    if chance.random() < 0.3:
        _never.wait(chance.random() / 500)


class Tools:
    """Tools that end the run, or a call beside them, now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.run: Run | None = None
        self.calls: list[str] = []

    def look(self, tool_context: ToolContext) -> str:
        """Look."""
        self.calls.append(tool_context.function_call_id)
        pause(self.chance)
        self._interfere(tool_context)
        return "seen"

    async def look_later(self, tool_context: ToolContext) -> str:
        """Look, later."""
        self.calls.append(tool_context.function_call_id)
        await asyncio.sleep(self.chance.random() / 500)
        self._interfere(tool_context)
        return "seen later"

    def _interfere(self, tool_context: ToolContext) -> None:
        run = self.run
        assert run is not None
        match self.chance.randrange(14):
            case 0:
                run.cancel("by a tool")
            case 1:
                tool_context.stop("by a tool")
            case 2:
                run.cancel_call(self.chance.choice(self.calls), "by another")
            case 3:
                raise ValueError("no")
            case 4:
                tool_context.actions.skip_summarization = True
            case 5:
                tool_context.actions.end_of_agent = True
            case _:
                pass


def tree(chance: random.Random, tools: Tools) -> tuple[LlmAgent, list[AnyModel]]:
    """A tree of two agents, of which one has a third as its tool, and their models."""
    looks = ["look", "look_later"]
    expert = AnyModel(chance, looks, [])
    below = AnyModel(chance, looks, ["desk"])
    desk = AnyModel(chance, [*looks, "expert"], ["below"])
    given: list[Any] = [tools.look, tools.look_later]
    called = AgentTool(LlmAgent("expert", expert, tools=given))
    contents = chance.choice(["default", "default", "none"])
    lower = LlmAgent("below", below, tools=given, include_contents=contents)
    return LlmAgent("desk", desk, tools=[*given, called], sub_agents=[lower]), [expert, below, desk]


def config(chance: random.Random) -> RunConfig:
    """Any settings."""
    return RunConfig(
        streaming=chance.random() < 0.5,
        tool_execution=chance.choice(MODES),
        on_tool_failure=chance.choice(FAILURES),
        overlap_model_calls=chance.random() < 0.3,
        max_llm_calls=chance.choice([2, 3, 6]),
        timeout=chance.choice([None, None, 0.02]),
        tool_timeout=chance.choice([None, None, 0.001]),
    )


def end(chance: random.Random, run: Run) -> None:
    """End a run from outside, or leave it to itself."""
    match chance.randrange(5):
        case 0:
            _never.wait(chance.random() / 100)
            run.cancel("from outside")
        case 1:
            _never.wait(chance.random() / 100)
            run.stop("from outside")
        case _:
            pass


def session(seed: int) -> list[ModelRequest]:
    """Run some turns of a session, and return all that its models were asked."""
    chance = random.Random(seed)
    tools = Tools(chance)
    agent, models = tree(chance, tools)
    log = FaultyLog()
    runner = Runner(app_of(agent), log=log)
    for _ in range(TURNS):
        run = tools.run = runner.run(**KEY, message=chance.choice(["hi", " "]), config=config(chance))
        run.start()
        end(chance, run)
        run.result(PATIENCE)
        assert run.wait_terminated(PATIENCE)
        if chance.random() < 0.3:
            runner.close()
            runner = Runner(app_of(agent), log=log)
    runner.close()
    log.close()
    return [request for model in models for request in model.requests]


@pytest.mark.scenario("B1", "B4")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_a_session_does_and_however_its_runs_end_each_request_is_legal(seed: int) -> None:
    assert_legal(session(seed))


def test_such_sessions_come_to_all_that_can_become_of_a_call() -> None:
    became = set[str]()
    for seed in range(30):
        for request in session(seed):
            for content in request.contents:
                became.update(str(one.response.get("status")) for one in content.function_responses)
    assert became >= {"None", "unknown", "not_run", "error"}
