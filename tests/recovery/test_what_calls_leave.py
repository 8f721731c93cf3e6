"""What a call has changed and asked for counts as its response does, from the commit of its end on."""

from collections.abc import Callable
from typing import Any

import pytest

from apps import APP, KEY, records
from intermission import (
    App,
    BaseAgent,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    ToolExecution,
    exit_loop,
)
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import Kind, MemoryEventLog
from left import recovered
from pools import until


def count(tool_context: ToolContext) -> str:
    """Change the state in each way that there is."""
    tool_context.state.append("list", 1)
    tool_context.state.add("user:sum", 2)
    tool_context.state["name"] = "Ada"
    tool_context.state["temp:passing"] = object.__name__
    return "counted"


def order(tool_context: ToolContext) -> None:
    """Begin what takes long."""
    tool_context.state.append("list", "order")


class Slow:
    """A tool in whose first call its process dies."""

    def __init__(self) -> None:
        self.gate: Gate | None = Gate()

    def slow(self) -> str:
        """Take long."""
        gate, self.gate = self.gate, None
        if gate is not None:
            gate.wait()
        return "done at last"


def app_of(agent: BaseAgent) -> App:
    """Return a resumable app."""
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))


def leave(app: App, slow: Slow, mode: ToolExecution = ToolExecution.PARALLEL) -> MemoryEventLog:
    """Return a log with a run that was left in the slow call, when the end of the one before is committed."""
    log, gate = MemoryEventLog(), slow.gate
    assert gate is not None
    runner = Runner(app, log=log, config=RunConfig(tool_execution=mode))
    runner.run(**KEY, message="go").start()
    gate.arrived()
    until(lambda: any(record.kind == Kind.CALL_FINISHED for record in records(log)))
    runner.close(grace=0)
    gate.open()
    return log


@pytest.mark.scenario("C12", "E14")
@pytest.mark.parametrize("mode", [ToolExecution.PARALLEL, ToolExecution.PARALLEL_SUBSCRIBE])
def test_what_a_call_has_changed_is_there_once_if_its_end_was_committed(mode: ToolExecution) -> None:
    slow = Slow()
    model = ScriptedModel(calls(("count", {}), ("slow", {})), default="done")
    app = app_of(LlmAgent("agent", model, tools=[count, slow.slow]))
    with Runner(app, log=leave(app, slow, mode)) as runner:
        assert runner.sessions.get(**KEY).state == {}
        (result,) = recovered(runner)
        assert runner.sessions.get(**KEY).state == {"list": [1], "user:sum": 2, "name": "Ada"}
        (event,) = (event for event in result.events if event.function_responses)
        assert event.actions.state_delta == {"name": "Ada"}


def _in_loop(model: ScriptedModel, *tools: Callable[..., Any]) -> BaseAgent:
    return LoopAgent("loop", sub_agents=[LlmAgent("agent", model, tools=tools)], max_iterations=3)


def _with_other(model: ScriptedModel, *tools: Callable[..., Any]) -> BaseAgent:
    other = LlmAgent("other", ScriptedModel(default="the other one"))
    return LlmAgent("agent", model, tools=tools, sub_agents=[other])


EXIT: tuple[str, dict[str, Any]] = ("exit_loop", {})
HAND_OVER: tuple[str, dict[str, Any]] = ("transfer_to_agent", {"agent_name": "other"})


@pytest.mark.parametrize(
    ("make", "call", "said"),
    [(_in_loop, EXIT, ""), (_with_other, HAND_OVER, "the other one")],
    ids=["exit_loop", "transfer"],
)
def test_what_a_call_has_asked_for_is_done_if_its_end_was_committed(
    make: Callable[..., BaseAgent], call: Any, said: str
) -> None:
    slow = Slow()
    model = ScriptedModel(calls(call, ("slow", {})), default="asked again")
    app = app_of(make(model, exit_loop, slow.slow))
    with Runner(app, log=leave(app, slow)) as runner:
        (result,) = recovered(runner)
        assert result.text == said
    assert len(model.requests) == 1


@pytest.mark.parametrize("recover_first", [True, False], ids=["recovered", "answered"])
def test_what_a_call_that_waits_has_changed_is_there_once_whoever_goes_on_with_its_run(
    recover_first: bool,
) -> None:
    slow = Slow()
    model = ScriptedModel(calls(("order", {}), ("order", {}), ("slow", {})), default="done")
    app = app_of(LlmAgent("agent", model, tools=[LongRunningFunctionTool(order), slow.slow]))
    log = leave(app, slow)
    if recover_first:
        with Runner(app, log=log) as runner:
            assert recovered(runner)[0].status is RunStatus.PAUSED
            assert runner.sessions.get(**KEY).state == {"list": ["order", "order"]}
    for status in (RunStatus.PAUSED, RunStatus.COMPLETED):
        with Runner(app, log=log) as runner:
            answer = runner.pending(**KEY)[0].reply({"done": 1})
            assert runner.resume(**KEY, answers=[answer]).result(60).status is status
            assert runner.sessions.get(**KEY).state == {"list": ["order", "order"]}
