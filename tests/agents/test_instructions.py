"""What a model is instructed."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from apps import KEY, app_of
from intermission import AgentContext, InstructionError, LlmAgent, RunConfig, Runner, RunStatus
from intermission.agents.instructions import fill
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog
from play import Play

STATE: dict[str, Any] = {
    "city": "Rome",
    "n": 7,
    "app:name": "Shop",
    "user:name": "Ada",
    "temp:x": "now",
    "zero": 0,
}


def instructed(agent: LlmAgent, state: dict[str, Any] | None = None) -> str:
    """What the agent's model is told."""
    play = Play("ok", state=state or STATE)
    play.run(agent)
    return play.requests[0].instruction


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Go to {city}.", "Go to Rome."),
        ("{ city } {city}", "Rome Rome"),
        ("{n} and {zero}", "7 and 0"),
        ("{app:name}, {user:name}, {temp:x}", "Shop, Ada, now"),
        ("[{nothing?}] [{city?}] [{user:nothing?}]", "[] [Rome] []"),
    ],
)
def test_a_field_stands_for_a_key_of_the_state(text: str, filled: str) -> None:
    assert fill(text, "agent", STATE) == filled


@pytest.mark.parametrize(
    "text",
    [
        '{"city": 1}',
        "{}",
        "{ }",
        "{1st}",
        "{two words}",
        "{other:city}",
        "{artifact.x}",
        "{city!r}",
        "{{city}}",
        "{{city}",
        "{city}}",
        "{?}",
        "}{",
    ],
)
def test_what_is_in_braces_and_no_key_stays_as_it_is(text: str) -> None:
    assert fill(text, "agent", STATE) == text


def test_a_missing_key_is_an_error_that_names_the_key_and_the_agent() -> None:
    with pytest.raises(InstructionError, match="agent 'guide' needs state\\['user:city'\\]") as caught:
        fill("{user:city}", "guide", STATE)
    assert (caught.value.agent, caught.value.key) == ("guide", "user:city")


def test_a_missing_key_fails_the_run_before_any_model_is_asked_and_the_session_goes_on() -> None:
    model = ScriptedModel(default="ok")
    with Runner(
        app_of(LlmAgent("guide", model, instruction="Go to {city}.")), log=MemoryEventLog()
    ) as runner:
        result = runner.run(**KEY, message="hi").result(30)
        assert result.status is RunStatus.FAILED
        assert isinstance(result.error, InstructionError)
        assert model.requests == []
        assert runner.run(**KEY, message="hi", state_delta={"city": "Rome"}).answer(30) == "ok"
    assert model.requests[0].instruction == "Go to Rome."


def test_the_text_of_a_function_is_taken_as_it_is() -> None:
    def write(context: AgentContext) -> str:
        return f"{context.state['city']}, {{city}}"

    assert instructed(LlmAgent("agent", ScriptedModel(), instruction=write)) == "Rome, {city}"


def test_a_function_writes_the_instruction_anew_for_each_model_call() -> None:
    written = list[int]()

    def write(context: AgentContext) -> str:
        written.append(len(context.events))
        return str(len(written))

    model = ScriptedModel(default="ok")
    with Runner(app_of(LlmAgent("agent", model, instruction=write)), log=MemoryEventLog()) as runner:
        for _ in range(2):
            runner.run(**KEY, message="hi").answer(30)
    assert [request.instruction for request in model.requests] == ["1", "2"]


def test_an_async_function_writes_on_the_loop_and_one_that_blocks_on_a_worker() -> None:
    places = dict[str, threading.Thread]()

    async def with_loop(_: AgentContext) -> str:
        await asyncio.sleep(0)
        places["async"] = threading.current_thread()
        return "async"

    def in_thread(_: AgentContext) -> str:
        places["plain"] = threading.current_thread()
        return "plain"

    for function in (with_loop, in_thread):
        write: Callable[[AgentContext], Any] = function
        model = ScriptedModel(default="ok")
        with Runner(app_of(LlmAgent("agent", model, instruction=write)), log=MemoryEventLog()) as runner:
            runner.run(**KEY, message="hi", config=RunConfig(overlap_model_calls=True)).answer(30)
        assert model.requests[0].instruction in places
    assert places["async"].name.startswith("intermission-loop")
    assert places["plain"] is not threading.main_thread()


@pytest.mark.parametrize("written", [None, 7])
def test_a_function_that_returns_no_text_is_an_error_that_names_the_agent(written: Any) -> None:
    def write(_: AgentContext) -> str:
        return written  # type: ignore[no-any-return]  # that is what is tested

    with pytest.raises(TypeError, match="instruction function of agent 'agent' must return a str"):
        Play("ok").run(LlmAgent("agent", ScriptedModel(), instruction=write))


def test_the_roots_global_instruction_comes_first_for_each_agent_of_its_tree() -> None:
    leaf = LlmAgent("leaf", ScriptedModel(), instruction="Leaf.", global_instruction="Not mine to say.")
    middle = LlmAgent("middle", ScriptedModel(), sub_agents=[leaf])
    texts: dict[str, Any] = {"instruction": "Root.", "global_instruction": "Be kind in {city}."}
    root = LlmAgent("root", ScriptedModel(), sub_agents=[middle], **texts)
    alone = LlmAgent("one", ScriptedModel(), global_instruction=lambda _: "All.", instruction="Own.")

    assert instructed(root).startswith("Be kind in Rome.\n\nRoot.\n\nYou are the agent root.")
    assert instructed(leaf).startswith("Be kind in Rome.\n\nLeaf.\n\nYou are the agent leaf.")
    assert instructed(alone) == "All.\n\nOwn."
