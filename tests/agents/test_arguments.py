"""What an agent refuses when it is made, and how it shows itself."""

from typing import Any

import pytest

from apps import KEY, app_of
from intermission import AgentTool, App, BaseAgent, CallbackContext, LlmAgent, Plugin, Runner
from intermission.models import ModelRequest
from intermission.testing import ScriptedModel
from intermission_storage import MemoryEventLog

MODEL = ScriptedModel()


def look() -> None:
    """Look."""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tools": look}, "tools of agent 'agent' must be a list"),
        ({"tools": None}, "tools of agent 'agent' must be a list, not None"),
        ({"tools": "look"}, "tools of agent 'agent' must be a list"),
        ({"tools": [BaseAgent("other")]}, r"write AgentTool\(…\)"),
        ({"sub_agents": BaseAgent("other")}, "sub_agents of 'agent' must be a list"),
        ({"instruction": 5}, "instruction of agent 'agent' must be a text or a function, not 5"),
        ({"instruction": None}, "instruction of agent 'agent' must be a text or a function, not None"),
        ({"global_instruction": 5}, "global_instruction of agent 'agent' must be a text or a function"),
        ({"output_key": 5}, "output_key of agent 'agent' must be a text, not 5"),
        ({"model": None}, "agent 'agent' needs a Model"),
        (
            {"before_model_callback": 5},
            "before_model_callback must be a function or a list of functions, not 5",
        ),
        ({"after_agent_callback": [5]}, "after_agent_callback must be a function or a list of functions"),
    ],
)
def test_what_an_agent_cannot_use_is_refused_when_it_is_made(wrong: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"model": MODEL, **wrong}
    with pytest.raises(TypeError, match=said):
        LlmAgent("agent", **given)


def test_agents_tools_apps_and_plugins_show_their_names() -> None:
    agent = LlmAgent("clerk", MODEL)
    assert repr(agent) == "LlmAgent('clerk')"
    assert repr(AgentTool(agent)) == "AgentTool(LlmAgent('clerk'))"
    assert repr(App("shop", agent)) == "App('shop', LlmAgent('clerk'))"
    assert repr(Plugin("bill")) == "Plugin('bill')"


def test_a_callback_cannot_change_the_settings_of_its_agent_for_others() -> None:
    refused: list[TypeError] = []

    def warm(context: CallbackContext, request: ModelRequest) -> None:
        settings: Any = request.generate_config
        try:
            settings["temperature"] = 2
        except TypeError as error:
            refused.append(error)

    model = ScriptedModel(default="ok")
    agent = LlmAgent("agent", model, generate_config={"temperature": 0}, before_model_callback=warm)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").answer()
        runner.run(**KEY, message="hi").answer()
    assert [dict(request.generate_config) for request in model.requests] == [{"temperature": 0}] * 2
    assert len(refused) == 2
