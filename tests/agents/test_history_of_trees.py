"""Runs that end in trees of agents, in agents that are tools, and by hooks: the next request is legal."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps import KEY, app_of
from desk import PATIENCE, assert_legal, told
from hooks import BOTH_KINDS, app_plugged, of_kind, plugin
from intermission import (
    AgentContext,
    AgentTool,
    BaseAgent,
    LlmAgent,
    OnToolFailure,
    RunConfig,
    Runner,
    RunStatus,
    ToolExecution,
)
from intermission.agents.effects import RunAgent, Steps
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog

OVER = ("transfer_to_agent", {"agent_name": "below"})
BACK = ("transfer_to_agent", {"agent_name": "desk"})


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def working(gate: Gate) -> Callable[[], str]:
    """A tool that waits at a gate."""

    def work() -> str:
        gate.wait()
        return "worked"

    return work


def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.scenario("B1")
def test_a_run_that_is_cancelled_after_a_transfer_is_told_to_both_agents_by_all_rules(gate: Gate) -> None:
    upper = ScriptedModel(calls(("look", {}), OVER), default="I see.")
    lower = ScriptedModel(calls(("look", {}), ("work", {})), calls(BACK), default="ok")
    below = LlmAgent("below", lower, tools=[look, working(gate)])
    desk = LlmAgent("desk", upper, tools=[look], sub_agents=[below])
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
    with Runner(app_of(desk), log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel("enough")
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "I see."

    assert_legal([*upper.requests, *lower.requests])
    assert told(lower.requests[1].contents) == ["seen", "unknown"]
    assert lower.requests[0].contents[1].text.count("desk called look") == 1
    foreign = "".join(content.text for content in upper.requests[-1].contents)
    assert "below called work" in foreign
    assert 'work answered below with {"status": "unknown", "outcome": "unknown"' in foreign
    assert 'look answered below with {"result": "seen"}' in foreign


@pytest.mark.scenario("B1")
def test_a_run_that_is_cancelled_in_an_agent_that_is_a_tool_tells_its_model_which_call_it_was(
    gate: Gate,
) -> None:
    inner = ScriptedModel(calls(("work", {})), default="7 km.")
    expert = AgentTool(LlmAgent("expert", inner, tools=[working(gate)]))
    outer = ScriptedModel(calls(("look", {}), ("expert", {"request": "How far?"})), default="ok")
    agent = LlmAgent("desk", outer, tools=[look, expert])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel("enough")
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"

    assert_legal([*outer.requests, *inner.requests])
    assert told(outer.requests[-1].contents) == ["seen", "unknown"]


class Twice(BaseAgent):
    """Runs the agent below it two times."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for _ in range(2):
            yield RunAgent(self.sub_agents[0])


HOOKS = [
    *["before_agent_callback", "after_agent_callback", "before_model_callback", "after_model_callback"],
    *["before_tool_callback", "after_tool_callback", "on_event_callback", "after_run_callback"],
]


@pytest.mark.scenario("B1")
@BOTH_KINDS
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_run_that_a_hook_fails_leaves_a_history_that_is_legal_by_all_rules(
    hook: str, nth: int, kind: str
) -> None:
    asked = 0

    def fail(**_: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == nth:
            raise ValueError("no")

    model = ScriptedModel(calls(("look", {}), ("nothing", {}), ("look", {}), ("look", {})), default="ok")
    app = app_plugged(
        LlmAgent("desk", model, tools=[look]), plugin("plugin", "plain", **{hook: of_kind(kind, fail)})
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        failed = 0
        for message in ("one", "two", "three", "four"):
            failed += runner.run(**KEY, message=message).result(PATIENCE).status is RunStatus.FAILED
        assert runner.run(**KEY, message="last").answer(PATIENCE) == "ok"

    assert failed == 1
    assert_legal(model.requests)
    # A failure of one call leaves the responses of the others, or what became of them.
    assert all(told(model.requests[-1].contents))


@pytest.mark.parametrize("failure", OnToolFailure)
def test_an_async_tool_that_fails_the_run_leaves_its_siblings_answered_by_all_rules(
    failure: OnToolFailure, gate: Gate
) -> None:
    async def break_down() -> str:
        raise ValueError("no")

    gate.open()
    model = ScriptedModel(calls(("look", {}), ("break_down", {}), ("work", {})), default="ok")
    config = RunConfig(on_tool_failure=failure)
    agent = LlmAgent("desk", model, tools=[look, break_down, working(gate)])
    with Runner(app_of(agent), log=MemoryEventLog(), config=config) as runner:
        assert runner.run(**KEY, message="hi").result(PATIENCE).status is RunStatus.FAILED
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"

    assert_legal(model.requests)
    first, second, third = told(model.requests[-1].contents)
    assert (first, third) in {("seen", "worked"), ("seen", "not_started"), ("not_started", "not_started")}
    assert second == "error"


def test_an_agent_that_is_asked_again_after_its_own_answer_is_asked_by_the_user() -> None:
    model = ScriptedModel(default="ok")
    inner = LlmAgent("agent", model)
    agent = Twice("twice", sub_agents=[inner])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"

    assert_legal(model.requests)
    assert [[content.role for content in request.contents] for request in model.requests] == [
        ["user"],
        ["user", "model", "user"],
    ]


def test_a_message_that_says_nothing_is_still_a_request_that_is_legal() -> None:
    model = ScriptedModel(default="ok")
    with Runner(app_of(LlmAgent("desk", model)), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message=" ").answer(PATIENCE) == "ok"

    assert_legal(model.requests)
