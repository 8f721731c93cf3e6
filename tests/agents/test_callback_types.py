"""Callbacks as users write them, plain and async, one or several: the types take them, and no others."""

from collections.abc import Sequence
from typing import Any

import pytest

from intermission import CallbackContext, Content, LlmAgent, ToolContext
from intermission.agents.callback_types import BeforeModelCallback
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel
from intermission.tools import Tool

MODEL = ScriptedModel(default="ok")


def greet(context: CallbackContext) -> Content | None:
    return None


async def sign(context: CallbackContext) -> Content:
    return Content.model("signed")


def shorten(context: CallbackContext, request: ModelRequest) -> ModelRequest:
    return request


async def answer(context: CallbackContext, request: ModelRequest) -> ModelResponse | None:
    return None


def note(context: CallbackContext, response: ModelResponse) -> None: ...


async def sorry(context: CallbackContext, request: ModelRequest, error: Exception) -> ModelResponse | None:
    return None


def check(tool: Tool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, str] | None:
    return None


async def tidy(
    tool: Tool, args: dict[str, Any], tool_context: ToolContext, tool_response: dict[str, Any]
) -> dict[str, Any]:
    return tool_response


class Failed:
    """An object that can be called."""

    def __call__(
        self, tool: Tool, args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, str]:
        return {"status": "error"}


def test_an_agent_takes_each_callback_plain_or_async_alone_or_in_a_list() -> None:
    kept = [shorten]
    several: Sequence[BeforeModelCallback] = (shorten, answer, lambda _context, _request: None)
    agent = LlmAgent(
        "agent",
        MODEL,
        before_agent_callback=[greet, sign],
        after_agent_callback=sign,
        before_model_callback=several,
        after_model_callback=note,
        on_model_error_callback=sorry,
        before_tool_callback=check,
        after_tool_callback=[tidy],
        on_tool_error_callback=Failed(),
    )
    assert len(agent.before_agent_callbacks) == 2
    assert agent.before_model_callbacks == tuple(several)
    assert LlmAgent("agent", MODEL, before_model_callback=kept).before_model_callbacks == (shorten,)


def test_the_types_refuse_a_callback_of_another_kind() -> None:
    LlmAgent("agent", MODEL, before_model_callback=greet)  # type: ignore[arg-type]  # what is tested
    LlmAgent("agent", MODEL, after_tool_callback=[check])  # type: ignore[list-item]  # it is refused
    with pytest.raises(TypeError, match="before_tool_callback must be a function or a list of functions"):
        LlmAgent("agent", MODEL, before_tool_callback=["check"])  # type: ignore[list-item]  # it is refused
