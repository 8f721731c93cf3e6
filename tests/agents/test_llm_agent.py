"""The agent as a generator of effects: no thread, no model, plain lists."""

from typing import Any

import pytest

from intermission import (
    AgentContext,
    App,
    Content,
    Event,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    RunConfig,
    Usage,
)
from intermission.agents.effects import CallModel, CallTools, Emit, Generated
from intermission.errors import ModelError
from intermission.kernel.clock import SystemClock
from intermission.kernel.scope import CancelScope
from intermission.models import ChatCompletions, ModelRequest, ModelResponse
from intermission.state import State
from intermission.testing import ScriptedModel
from play import Play, said


def look(where: str) -> str:
    """Look."""
    return where


def context(**fields: Any) -> AgentContext:
    events = [Event(invocation_id="e", author="user", timestamp=0.0, content=Content.user("hi"))]
    known: dict[str, Any] = {"config": RunConfig(), "events": events, **fields}
    known |= {"state": State(dict), "cancellation": CancelScope.child_of(None)}
    return AgentContext(invocation_id="e", user_id="u", session_id="s", clock=SystemClock(), **known)


def whole(content: Content, usage: Usage | None = None, shown: int = 0) -> Generated:
    return Generated(ModelResponse(content=content, usage=usage), shown)


def test_the_agent_asks_the_model_with_its_instruction_its_tools_and_the_conversation() -> None:
    agent = LlmAgent("agent", ScriptedModel(), instruction="Be brief.", tools=[look])
    effect = next(agent.run(context(config=RunConfig(streaming=True))))

    assert isinstance(effect, CallModel)
    assert effect.author == "agent"
    assert effect.request == ModelRequest(
        contents=(Content.user("hi"),),
        instruction="Be brief.",
        tools=(agent.tools["look"].declaration,),
        streaming=True,
    )


def test_an_answer_without_calls_is_emitted_and_ends_the_agent() -> None:
    steps = LlmAgent("agent", ScriptedModel()).run(context())
    next(steps)
    effect = steps.send(whole(Content.model("Hello"), Usage(1, 2, 3), shown=5))

    assert isinstance(effect, Emit)
    assert effect.event.content == Content.model("Hello")
    assert effect.event.usage == Usage(1, 2, 3)
    assert effect.event.delta == ""
    assert effect.last
    with pytest.raises(StopIteration):
        steps.send(effect.event)


def test_calls_are_emitted_then_run_then_answered_then_the_model_is_asked_again() -> None:
    agent = LlmAgent("agent", ScriptedModel(), tools=[look])
    steps = agent.run(context())
    next(steps)
    asked = steps.send(whole(Content.model("One moment", calls=[FunctionCall("", "look", {"where": "a"})])))
    assert isinstance(asked, Emit)
    assert asked.starts_calls
    (call,) = asked.event.function_calls
    tools = steps.send(asked.event)
    assert tools == CallTools((call,), agent.tools, agent)
    answered = steps.send((FunctionResponse(call.id, "look", {"result": "a"}),))
    assert isinstance(answered, Emit)
    assert answered.event.function_responses == (FunctionResponse(call.id, "look", {"result": "a"}),)
    assert isinstance(steps.send(answered.event), CallModel)


def test_the_model_may_be_asked_at_once_unless_something_else_is_due_before() -> None:
    def write(_: AgentContext) -> str:
        return "Be brief."

    asking = Content.model(calls=[FunctionCall("", "look", {"where": "a"})])
    leaf = LlmAgent("leaf", ScriptedModel(), tools=[look])
    LlmAgent("root", ScriptedModel(), global_instruction=write, sub_agents=[leaf])
    for agent, at_once in (
        (LlmAgent("agent", ScriptedModel(), tools=[look], instruction="{a?}"), True),
        (LlmAgent("agent", ScriptedModel(), tools=[look], instruction=write), False),
        (leaf, False),
    ):
        play = Play(asking, "ok")
        play.run(agent)
        emitted = [effect for effect in play.effects if isinstance(effect, Emit)]
        assert [effect.calls_model for effect in emitted] == [False, at_once, False]


def test_an_agent_that_includes_no_contents_shows_its_model_the_current_turn_alone() -> None:
    before = (said("old", "user"), said("answer", "agent"), said("new", "user"))
    play = Play("ok", events=before)
    play.run(LlmAgent("agent", ScriptedModel(), include_contents="none"))

    assert play.requests[0].contents == (Content.user("new"),)


def test_a_model_may_be_named_by_its_provider_and_its_name_there() -> None:
    model = LlmAgent("agent", model="openai/gpt-4o").model

    assert isinstance(model, ChatCompletions)
    assert model.name == "gpt-4o"
    with pytest.raises(ModelError, match=r"no provider for the model name 'gpt-4o'; known are .*openai/"):
        LlmAgent("agent", "gpt-4o")


@pytest.mark.parametrize("given", [5, None, ScriptedModel])
def test_what_is_no_model_is_refused_and_so_is_the_class_of_one(given: Any) -> None:
    with pytest.raises(TypeError, match=r"agent 'agent' needs a Model, such as ChatCompletions\(…\)"):
        LlmAgent("agent", given)


@pytest.mark.parametrize(
    ("name", "root", "said"),
    [
        (LlmAgent("agent", ScriptedModel()), "shop", r"app name must be a str, not LlmAgent\('agent'\)"),
        ("shop", "agent", "root agent of app 'shop' must be an agent, not 'agent'"),
    ],
)
def test_what_is_no_app_is_refused_when_it_is_made(name: Any, root: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        App(name, root)


def test_calls_are_emitted_with_the_ids_that_the_runtime_gave_them() -> None:
    steps = LlmAgent("agent", ScriptedModel()).run(context())
    next(steps)
    calls = (FunctionCall("call-1", "look", {}), FunctionCall("call-2", "look", {}))
    effect = steps.send(whole(Content.model(calls=calls)))

    assert isinstance(effect, Emit)
    assert effect.event.function_calls == calls


def test_an_answer_that_was_cut_off_says_so_in_its_event() -> None:
    steps = LlmAgent("agent", ScriptedModel()).run(context())
    next(steps)
    effect = steps.send(Generated(ModelResponse(content=Content.model("Hel"), finish_reason="length"), 0))

    assert isinstance(effect, Emit)
    assert effect.event.error_code == "length"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools named 'look'"):
        LlmAgent("agent", ScriptedModel(), tools=[look, look])


@pytest.mark.parametrize("name", ["two words", "a.b", "ünïcode", "x" * 65])
def test_a_tool_whose_name_services_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="letters, digits, underscores and hyphens, 64 at most"):
        LlmAgent("agent", ScriptedModel(), tools=[FunctionTool(look, name=name)])
    LlmAgent("agent", ScriptedModel(), tools=[FunctionTool(look, name="look-up_2")])


@pytest.mark.parametrize("name", ["", "user", "two words", "1st", "ünïcode", "a-b"])
def test_a_name_that_adks_clients_could_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be an identifier"):
        LlmAgent(name, ScriptedModel())
