"""The hooks' signatures: whoever overrides them, plain or async, satisfies the type checkers."""

import inspect
from typing import Any

import pytest

from apps import KEY
from hooks import app_plugged
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    Event,
    LlmAgent,
    Plugin,
    ResidualOutcome,
    ResidualWork,
    Run,
    Runner,
    RunRecord,
    RunResult,
    ToolContext,
)
from intermission.agents.plugins import HOOKS
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel
from intermission.tools import Tool
from intermission_storage import MemoryEventLog


class Plain(Plugin):
    """Overrides each hook by a plain method; its types are looked at by the check of types."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.called: list[str] = []

    def on_user_message_callback(
        self, *, invocation_context: AgentContext, user_message: Content
    ) -> Content | None:
        self.called.append("on_user_message_callback")
        return None

    def before_run_callback(self, *, invocation_context: AgentContext) -> Content | None:
        self.called.append("before_run_callback")
        return None

    def on_event_callback(self, *, invocation_context: AgentContext, event: Event) -> Event | None:
        self.called.append("on_event_callback")
        return None

    def after_run_callback(self, *, invocation_context: AgentContext) -> None:
        self.called.append("after_run_callback")

    def on_run_error_callback(self, *, invocation_context: AgentContext, error: Exception) -> None:
        self.called.append("on_run_error_callback")

    def before_agent_callback(self, *, agent: BaseAgent, callback_context: AgentContext) -> Content | None:
        self.called.append("before_agent_callback")
        return None

    def after_agent_callback(self, *, agent: BaseAgent, callback_context: AgentContext) -> Content | None:
        self.called.append("after_agent_callback")
        return None

    def before_model_callback(
        self, *, callback_context: AgentContext, llm_request: ModelRequest
    ) -> ModelResponse | None:
        self.called.append("before_model_callback")
        return None

    def after_model_callback(
        self, *, callback_context: AgentContext, llm_response: ModelResponse
    ) -> ModelResponse | None:
        self.called.append("after_model_callback")
        return None

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        self.called.append("on_run_end")

    def on_residual_end(self, work: ResidualWork, outcome: ResidualOutcome) -> None:
        self.called.append("on_residual_end")


class Later(Plugin):
    """Overrides each hook by an async method."""

    def __init__(self) -> None:
        super().__init__("later")
        self.called: list[str] = []

    async def on_user_message_callback(
        self, *, invocation_context: AgentContext, user_message: Content
    ) -> Content | None:
        self.called.append("on_user_message_callback")
        return None

    async def before_run_callback(self, *, invocation_context: AgentContext) -> Content | None:
        self.called.append("before_run_callback")
        return None

    async def on_event_callback(self, *, invocation_context: AgentContext, event: Event) -> Event | None:
        self.called.append("on_event_callback")
        return None

    async def after_run_callback(self, *, invocation_context: AgentContext) -> None:
        self.called.append("after_run_callback")

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: AgentContext) -> None:
        self.called.append("before_agent_callback")

    async def after_agent_callback(
        self, *, agent: BaseAgent, callback_context: AgentContext
    ) -> Content | None:
        self.called.append("after_agent_callback")
        return None

    async def before_model_callback(
        self, *, callback_context: AgentContext, llm_request: ModelRequest
    ) -> ModelRequest | ModelResponse | None:
        self.called.append("before_model_callback")
        return None

    async def after_model_callback(
        self, *, callback_context: AgentContext, llm_response: ModelResponse
    ) -> ModelResponse | None:
        self.called.append("after_model_callback")
        return None

    async def on_model_error_callback(
        self, *, callback_context: AgentContext, llm_request: ModelRequest, error: Exception
    ) -> ModelResponse | None:
        return None

    async def before_tool_callback(
        self, *, tool: Tool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        return None

    async def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        self.called.append("on_run_end")


@pytest.mark.parametrize("plugin", [Plain(), Later()], ids=lambda one: type(one).__name__)
def test_each_hook_that_is_overridden_is_called_with_the_arguments_that_it_says(
    plugin: Plain | Later,
) -> None:
    with Runner(app_plugged(LlmAgent("agent", ScriptedModel("ok")), plugin), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer() == "ok"
    assert plugin.called == [
        "on_user_message_callback",
        "before_run_callback",
        "before_agent_callback",
        "before_model_callback",
        "after_model_callback",
        "on_event_callback",
        "after_agent_callback",
        "after_run_callback",
        "on_run_end",
    ]


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hooks_of_plugin_are_those_that_an_app_looks_for(hook: str) -> None:
    method = getattr(Plugin, hook)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    kinds = {parameter.kind for parameter in parameters}
    by_position = hook in {"on_run_end", "on_residual_end"}
    assert kinds == {parameters[0].POSITIONAL_OR_KEYWORD if by_position else parameters[0].KEYWORD_ONLY}
    assert app_plugged(LlmAgent("agent", ScriptedModel()), Plugin("none")).plugins.hooks(hook) == ()
