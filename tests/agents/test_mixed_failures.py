"""Whatever goes wrong, wherever, in whatever mode: each run ends, and the conversation stays legal."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import scale
from apps import KEY
from desk import assert_legal
from hooks import app_plugged, of_kind, plugin
from intermission import AgentTool, LlmAgent, OnToolFailure, RunConfig, Runner, RunStatus, ToolExecution
from intermission.testing import ScriptedModel, calls, text
from intermission_storage import MemoryEventLog

PATIENCE = 30.0
CALLBACKS = [
    *["before_agent_callback", "after_agent_callback"],
    *["before_model_callback", "after_model_callback"],
    *["before_tool_callback", "after_tool_callback", "on_tool_error_callback"],
]
OF_RUNS = ["before_run_callback", "on_event_callback", "after_run_callback"]
PLACES = [*CALLBACKS, *OF_RUNS, "tool", "async tool", "called agent", "instruction"]
FAILURES = ["raise", "cancel", "stop", "wrong type", "cancelled error", "exit"]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("look", {}),
    ("look_async", {}),
    ("expert", {"request": "?"}),
    ("nothing", {}),
    ("look", {"at": 1}),
]
OVER = ("transfer_to_agent", {"agent_name": "below"})


class Trouble:
    """Does something wrong the nth time that it is asked, and nothing afterwards."""

    def __init__(self, failure: str, nth: int) -> None:
        self.failure = failure
        self.left = nth
        self.run: Any = None

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.left -= 1
        if self.left:
            return None
        match self.failure:
            case "raise":
                raise ValueError("no")
            case "cancelled error":
                raise asyncio.CancelledError
            case "exit":
                raise SystemExit
            case "wrong type":
                return 17
            case "cancel":
                self.run.cancel("enough")
            case _:
                self.run.stop("enough")
        return None


def tools(place: str, trouble: Trouble) -> list[Any]:
    def at(here: str) -> None:
        if place == here:
            trouble()

    def look() -> str:
        at("tool")
        return "seen"

    async def look_async() -> str:
        at("async tool")
        return "seen"

    def called(_: Any) -> str:
        at("called agent")
        return "Answer."

    return [look, look_async, AgentTool(LlmAgent("expert", ScriptedModel(default="ok"), instruction=called))]


def agent_of(place: str, trouble: Trouble, hook: dict[str, Callable[..., Any]]) -> LlmAgent:
    def instruction(_: Any) -> str:
        if place == "instruction":
            trouble()
        return "Do it."

    below = LlmAgent(
        "below", ScriptedModel(calls(("transfer_to_agent", {"agent_name": "desk"})), default="ok")
    )
    model = ScriptedModel(
        calls(*CALLS), calls(CALLS[0], OVER, CALLS[1]), calls(CALLS[1]), default=text("o", "k")
    )
    given: Any = hook
    return LlmAgent(
        "desk", model, instruction=instruction, tools=tools(place, trouble), sub_agents=[below], **given
    )


CONFIGS = st.builds(
    RunConfig,
    streaming=st.booleans(),
    overlap_model_calls=st.booleans(),
    tool_execution=st.sampled_from(ToolExecution),
    on_tool_failure=st.sampled_from(OnToolFailure),
)


@pytest.mark.scenario("B1", "D12")
@settings(max_examples=scale.rounds(60, 1000))
@example("before_agent_callback", "cancelled error", 1, RunConfig(), True, False)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(FAILURES),
    st.integers(1, 4),
    CONFIGS,
    st.booleans(),
    st.booleans(),
)
def test_each_run_ends_and_the_next_request_is_legal(
    place: str, failure: str, nth: int, config: RunConfig, is_async: bool, of_plugin: bool
) -> None:
    trouble = Trouble(failure, nth)
    hook = {place: of_kind("async" if is_async else "plain", trouble)} if place.endswith("callback") else {}
    of_plugin = of_plugin or place in OF_RUNS
    agent = agent_of(place, trouble, {} if of_plugin else hook)
    app = app_plugged(agent, plugin("plugin", "plain", **hook if of_plugin else {}))
    with Runner(app, log=MemoryEventLog(), config=config) as runner:
        for message in ("one", "two", "three"):
            trouble.run = runner.run(**KEY, message=message)
            trouble.run.result(PATIENCE)
        trouble.left = 0
        assert runner.run(**KEY, message="last").result(PATIENCE).status is RunStatus.COMPLETED
    for one in (agent, *agent.sub_agents):
        assert isinstance(one, LlmAgent)
        assert isinstance(one.model, ScriptedModel)
        assert_legal(one.model.requests)
