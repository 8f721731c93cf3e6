"""What the plugins of an app see of an agent that is called as a tool."""

from collections.abc import Iterator
from typing import Any

import pytest

from apps import APP, KEY
from hooks import BOTH_KINDS, of_kind
from intermission import (
    AgentTool,
    App,
    CallbackContext,
    Content,
    LlmAgent,
    Plugin,
    Run,
    Runner,
    RunRecord,
    RunResult,
    RunStatus,
)
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import LmdbEventLog, MemoryEventLog

PATIENCE = 30.0
ASK = calls(("expert", {"request": "How far?"}))


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


class Watching(Plugin):
    """Notes which agents ran, how runs ended with how many tokens, and how often it was closed."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.agents: list[str] = []
        self.ends: list[tuple[str, int]] = []
        self.closed = 0

    def before_agent_callback(self, *, agent: Any, callback_context: CallbackContext) -> None:
        self.agents.append(agent.name)

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        self.ends.append((result.text or str(result.status), result.usage.total_tokens))

    def close(self) -> None:
        self.closed += 1


def desk(*tools: Any, model: ScriptedModel | None = None) -> LlmAgent:
    return LlmAgent("desk", ScriptedModel(ASK, "It is 7 km.") if model is None else model, tools=tools)


def expert(*replies: Any, **more: Any) -> LlmAgent:
    return LlmAgent("expert", ScriptedModel(*replies), **more)


def runner_of(agent: LlmAgent, *plugins: Plugin) -> Runner:
    return Runner(App(APP, agent, plugins=plugins), log=MemoryEventLog())


def test_the_plugins_of_the_app_see_the_run_of_the_agent_and_are_closed_once() -> None:
    watching = Watching()
    with runner_of(desk(AgentTool(expert("7 km."))), watching) as runner:
        run = runner.run(**KEY, message="hi")
        result = run.result(PATIENCE)
        assert watching.closed == 0
    assert watching.agents == ["desk", "expert"]
    assert [said for said, _ in watching.ends] == ["7 km.", "It is 7 km."]
    assert watching.closed == 1
    assert result.status is RunStatus.COMPLETED


def test_the_tokens_of_the_agent_are_those_of_its_own_run_so_that_none_is_billed_twice() -> None:
    watching = Watching()
    with runner_of(desk(AgentTool(expert("7 km."))), watching) as runner:
        usage = runner.run(**KEY, message="hi").result(PATIENCE).usage
    (_, inner), (_, outer) = watching.ends
    assert outer == usage.total_tokens
    with runner_of(desk(AgentTool(expert("7 km.")))) as runner:
        assert runner.run(**KEY, message="hi").result(PATIENCE).usage == usage
    assert inner > 0


def test_plugins_see_agents_that_are_called_by_called_agents() -> None:
    watching = Watching()
    middle = expert(
        calls(("deep", {"request": "?"})), "7", tools=[AgentTool(LlmAgent("deep", ScriptedModel("6")))]
    )
    with runner_of(desk(AgentTool(middle)), watching) as runner:
        runner.run(**KEY, message="hi").result(PATIENCE)
    assert watching.agents == ["desk", "expert", "deep"]
    assert [said for said, _ in watching.ends] == ["6", "7", "It is 7 km."]
    assert watching.closed == 1


def test_a_tool_may_keep_the_plugins_out() -> None:
    watching = Watching()
    with runner_of(desk(AgentTool(expert("7 km."), include_plugins=False)), watching) as runner:
        runner.run(**KEY, message="hi").result(PATIENCE)
    assert watching.agents == ["desk"]
    assert [said for said, _ in watching.ends] == ["It is 7 km."]


def test_a_plugin_may_answer_in_the_place_of_the_agent() -> None:
    class Instead(Plugin):
        """Answers for the expert."""

        def before_agent_callback(self, *, agent: Any, callback_context: CallbackContext) -> Content | None:
            return Content.model("8 km.") if agent.name == "expert" else None

    asked = expert()
    with runner_of(desk(AgentTool(asked)), Instead("instead")) as runner:
        events = list(runner.run(**KEY, message="hi"))
    assert [one.response for event in events for one in event.function_responses] == [{"result": "8 km."}]


@BOTH_KINDS
def test_the_end_of_the_agents_run_is_told_to_the_end_however_long_that_takes(kind: str, gate: Gate) -> None:
    told: list[str] = []

    def on_run_end(run: Any, result: RunResult) -> None:
        told.append(result.text)

    def slow(run: Any, result: RunResult) -> None:
        if result.text == "7 km.":
            gate.wait()

    first, second = Plugin("first"), Plugin("second")
    first.on_run_end = slow  # type: ignore[method-assign]  # as a test's own function
    second.on_run_end = of_kind(kind, on_run_end)  # type: ignore[method-assign]  # a hook of a test
    with runner_of(desk(AgentTool(expert("7 km."))), first, second) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        # Longer than a runner that closes waits for hooks.
        assert not run.wait_terminated(1.5)
        gate.open()
        assert run.answer(PATIENCE) == "It is 7 km."
    assert told == ["7 km.", "It is 7 km."]


def test_a_failed_and_a_cancelled_run_of_the_agent_are_told_too(gate: Gate) -> None:
    watching = Watching()
    agent = desk(AgentTool(expert(error("service"), text(gate, "late"))), model=ScriptedModel(ASK, ASK, "ok"))
    with runner_of(agent, watching) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel("enough")
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        gate.open()
        assert run.wait_terminated(PATIENCE)
    assert sorted(said for said, _ in watching.ends) == ["cancelled", "cancelled", "failed"]


def test_what_is_told_of_the_agents_run_leaves_nothing_in_the_log_of_the_app(tmp_path: Any) -> None:
    watching = Watching()
    for _ in range(2):
        with (
            LmdbEventLog(tmp_path / "log") as log,
            Runner(App(APP, desk(AgentTool(expert("7 km."))), plugins=[watching]), log=log) as runner,
        ):
            runner.run(**KEY, message="hi").result(PATIENCE)
    assert [said for said, _ in watching.ends] == ["7 km.", "It is 7 km."] * 2
