"""An agent that another one's model calls like a function."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from apps import KEY, app_of
from intermission import (
    AgentContext,
    AgentTool,
    BaseAgent,
    CancelScope,
    Content,
    LlmAgent,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    State,
    ToolContext,
    ToolExecution,
)
from intermission.actions import Actions
from intermission.agents.effects import Call, Steps
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog

PATIENCE = 30.0


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def asking(name: str = "expert", request: str = "How far?", **more: Any) -> Any:
    return (name, more or {"request": request})


def run(
    outer: ScriptedModel,
    tool: AgentTool,
    state: dict[str, Any] | None = None,
    config: RunConfig | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """What the model was answered, and the state afterwards."""
    with Runner(app_of(LlmAgent("desk", outer, tools=[tool])), log=MemoryEventLog(), config=config) as runner:
        events = list(runner.run(**KEY, message="hi", state_delta=state))
        responses = [one.response for event in events for one in event.function_responses]
        return responses, dict(runner.sessions.get(**KEY).state)


def test_what_the_agent_says_last_is_the_response() -> None:
    inner = ScriptedModel(calls(("look", {})), "7 km.")

    def look() -> str:
        """Look."""
        return "at the map"

    expert = LlmAgent("expert", inner, description="Knows distances.", tools=[look])
    outer = ScriptedModel(calls(asking()), "It is 7 km.")
    responses, _ = run(outer, AgentTool(expert))

    assert responses == [{"result": "7 km."}]
    assert [content.text for content in inner.requests[0].contents] == ["How far?"]
    (declared,) = outer.requests[0].tools
    assert (declared.name, declared.description) == ("expert", "Knows distances.")
    assert declared.parameters["required"] == ["request"]


def test_each_call_is_a_session_of_its_own() -> None:
    inner = ScriptedModel(default="ok")
    run(ScriptedModel(calls(asking()), calls(asking()), "ok"), AgentTool(LlmAgent("expert", inner)))

    assert [len(request.contents) for request in inner.requests] == [1, 1]


class Question(BaseModel):
    """A question."""

    city: str
    days: int = 1


def test_the_input_schema_is_what_the_model_gives_and_what_is_checked() -> None:
    inner = ScriptedModel(default="ok")
    tool = AgentTool(LlmAgent("expert", inner, input_schema=Question))
    wrong, right = asking(city="Rome", days="many"), asking(city="Rome", days="3")
    responses, _ = run(ScriptedModel(calls(wrong), calls(right), "ok"), tool)

    assert tool.declaration.parameters == Question.model_json_schema()
    assert "days: " in responses[0]["message"]
    assert responses[1] == {"result": "ok"}
    assert [request.contents[0].text for request in inner.requests] == ['{"city": "Rome", "days": 3}']


@pytest.mark.parametrize("args", [{}, {"request": ""}, {"request": 7}])
def test_a_call_without_a_request_is_answered_with_what_is_wrong(args: dict[str, Any]) -> None:
    inner = ScriptedModel()
    responses, _ = run(ScriptedModel(calls(("expert", args)), "ok"), AgentTool(LlmAgent("expert", inner)))

    assert "request: must be a text" in responses[0]["message"]
    assert inner.requests == []


def test_an_answer_with_a_schema_is_a_value() -> None:
    tool = AgentTool(
        LlmAgent("expert", ScriptedModel('{"city": "Rome"}', "[1]", "no"), output_schema=dict[str, str])
    )
    responses, _ = run(ScriptedModel(calls(asking()), calls(asking()), calls(asking()), "ok"), tool)

    assert responses == [{"city": "Rome"}, {"result": "[1]"}, {"result": "no"}]


def test_the_agent_begins_with_the_callers_state_and_its_changes_are_the_callers() -> None:
    seen = list[dict[str, Any]]()

    def note(tool_context: ToolContext) -> None:
        """Note."""
        state = tool_context.state
        seen.append(dict(state))
        state["own"] = "new"
        state["user:n"] = 2
        state["gone"] = None
        state["temp:x"] = "inner"
        state.append("list", "b")

    expert = LlmAgent("expert", ScriptedModel(calls(("note", {})), "ok"), tools=[note], output_key="said")
    before = {"own": "old", "user:n": 1, "app:m": 1, "gone": "soon", "temp:x": "outer", "list": ["a"]}
    _, after = run(ScriptedModel(calls(asking()), "ok"), AgentTool(expert), dict(before))

    assert seen == [before]
    assert after == {"own": "new", "user:n": 2, "app:m": 1, "list": ["a", "b"], "said": "ok"}


def test_a_failure_of_the_agent_is_one_of_the_tool_and_the_caller_goes_on() -> None:
    expert = LlmAgent("expert", ScriptedModel(error("service", "a secret"), default="ok"))
    responses, _ = run(ScriptedModel(calls(asking()), calls(asking()), "ok"), AgentTool(expert))

    assert responses == [{"status": "error", "message": "The tool failed."}, {"result": "ok"}]


def test_an_agent_that_is_stopped_has_not_done_what_it_was_called_for() -> None:
    def stop(tool_context: ToolContext) -> None:
        """Stop."""
        tool_context.stop("enough")

    expert = LlmAgent("expert", ScriptedModel(calls(("stop", {}))), tools=[stop])
    responses, _ = run(ScriptedModel(calls(asking()), "ok"), AgentTool(expert))

    assert responses == [{"status": "error", "message": "The tool failed."}]


def test_the_agent_has_a_call_limit_of_its_own_and_does_not_stream() -> None:
    inner = ScriptedModel(calls(("again", {})), "ok", default=calls(("again", {})))

    def again() -> None:
        """Again."""

    tool = AgentTool(LlmAgent("expert", inner, tools=[again]))
    config = RunConfig(max_llm_calls=3, streaming=True)
    responses, _ = run(ScriptedModel(calls(asking()), calls(asking()), "ok"), tool, config=config)

    assert responses == [{"result": "ok"}, {"status": "error", "message": "The tool failed."}]
    assert [request.streaming for request in inner.requests] == [False] * 5


def test_the_response_ends_the_turn_if_it_is_not_to_be_summed_up() -> None:
    outer = ScriptedModel(calls(asking()))
    responses, _ = run(outer, AgentTool(LlmAgent("expert", ScriptedModel("7")), skip_summarization=True))

    assert responses == [{"result": "7"}]
    assert len(outer.requests) == 1


def test_a_failure_does_not_end_the_turn_though_a_response_would() -> None:
    expert = LlmAgent("expert", ScriptedModel(error("service")))
    outer = ScriptedModel(calls(asking()), "Sorry.")
    run(outer, AgentTool(expert, skip_summarization=True))

    assert len(outer.requests) == 2


def test_calls_of_one_agent_may_overlap() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    class Meeting(BaseAgent):
        """Answers when two of it are there."""

        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield Call(both.wait)
            yield context.event(self.name, content=Content.model(context.events[0].text))

    outer = ScriptedModel(calls(asking(request="a"), asking(request="b")), "ok")
    config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    responses, _ = run(outer, AgentTool(Meeting("expert")), config=config)

    assert responses == [{"result": "a"}, {"result": "b"}]


@pytest.mark.parametrize("where", ["model", "tool"])
def test_the_agent_is_cancelled_with_the_call_and_terminated_means_that_it_has_ended(
    where: str, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    statuses, awaited = list[str](), threading.Event()
    wait = Run.wait_terminated

    def wait_terminated(run: Run) -> bool:
        awaited.set()
        return wait(run)

    def work(tool_context: ToolContext) -> None:
        """Work."""
        gate.wait()
        statuses.append("cancelled" if tool_context.cancellation.cancelled else "going")

    first = calls(("work", {})) if where == "tool" else text(gate, "late")
    expert = LlmAgent("expert", ScriptedModel(first, default="ok"), tools=[work])
    outer = LlmAgent("desk", ScriptedModel(calls(asking()), default="ok"), tools=[AgentTool(expert)])
    with Runner(app_of(outer), log=MemoryEventLog()) as runner:
        cancelled = runner.run(**KEY, message="hi").start()
        gate.arrived()
        with monkeypatch.context() as patch:
            patch.setattr(Run, "wait_terminated", wait_terminated)
            assert cancelled.cancel("enough").accepted
            assert awaited.wait(PATIENCE)
        assert cancelled.result(PATIENCE).status is RunStatus.CANCELLED
        assert not cancelled.wait_terminated(0)
        gate.open()
        assert cancelled.wait_terminated(PATIENCE)
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "ok"
    assert statuses == (["cancelled"] if where == "tool" else [])
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_call_that_takes_too_long_ends_its_agent_and_the_caller_goes_on(gate: Gate) -> None:
    expert = LlmAgent("expert", ScriptedModel(text(gate, "late")))
    outer = ScriptedModel(calls(asking()), "Without it, then.")
    desk = LlmAgent("desk", outer, tools=[AgentTool(expert)])
    with Runner(app_of(desk), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (call,) = (call for event in runner.sessions.events(**KEY) for call in event.function_calls)
        assert run.cancel_call(call.id)
        assert run.answer(PATIENCE) == "Without it, then."
        gate.open()
        assert run.wait_terminated(PATIENCE)


def test_async_tools_of_the_agent_run_on_the_loop_that_those_of_the_caller_have() -> None:
    loops = list[asyncio.AbstractEventLoop]()

    async def here() -> None:
        """Say where."""
        loops.append(asyncio.get_running_loop())

    expert = LlmAgent("expert", ScriptedModel(calls(("here", {})), "ok"), tools=[here])
    outer = ScriptedModel(calls(("here", {})), calls(asking()), "ok")
    desk = LlmAgent("desk", outer, tools=[here, AgentTool(expert)])
    with Runner(app_of(desk), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "ok"
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_an_agent_of_a_tree_that_is_called_answers_itself_and_hands_over_to_none_above_it() -> None:
    below = LlmAgent("below", ScriptedModel("7 km."))
    inner = ScriptedModel(
        calls(("transfer_to_agent", {"agent_name": "desk"})),
        calls(("transfer_to_agent", {"agent_name": "below"})),
    )
    expert = LlmAgent("expert", inner, sub_agents=[below])
    peer = LlmAgent("peer", ScriptedModel())
    outer = ScriptedModel(calls(asking()), "It is 7 km.")
    desk = LlmAgent(
        "desk", outer, global_instruction="Be polite.", sub_agents=[expert, peer], tools=[AgentTool(expert)]
    )
    with Runner(app_of(desk), log=MemoryEventLog()) as runner:
        events = list(runner.run(**KEY, message="hi"))
    (response,) = (one.response for event in events for one in event.function_responses)

    assert response == {"result": "7 km."}
    (refused,) = inner.requests[1].contents[-1].function_responses
    assert refused.response["message"] == "Wrong arguments: agent_name must be one of below, not 'desk'"
    assert "peer" not in inner.requests[0].instruction
    assert "polite" not in inner.requests[0].instruction


def test_an_agent_tool_may_be_called_outside_of_any_run() -> None:

    state = State(dict)
    context = ToolContext(
        "c", "e", "u", "s", state, CancelScope.child_of(None), Actions(), list[str]().append
    )
    tool = AgentTool(LlmAgent("expert", ScriptedModel("ok"), output_key="said"))

    assert tool.call({"request": "hi"}, context) == {"result": "ok"}
    assert state["said"] == "ok"
