"""The types of an agent's callbacks, by the names of the keywords. Each is plain or async."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from intermission.agents.base import AgentCallback, CallbackContext
from intermission.models.base import ModelRequest, ModelResponse
from intermission.tools.base import Tool, ToolContext

__all__ = [
    "AfterAgentCallback",
    "AfterModelCallback",
    "AfterToolCallback",
    "BeforeAgentCallback",
    "BeforeModelCallback",
    "BeforeToolCallback",
    "OnModelErrorCallback",
    "OnToolErrorCallback",
]

_Request: TypeAlias = ModelRequest | ModelResponse | None
_Response: TypeAlias = ModelResponse | None
_Result: TypeAlias = dict[str, Any] | None

BeforeAgentCallback: TypeAlias = AgentCallback
"""`(context)`; content that it returns is the agent's answer."""

AfterAgentCallback: TypeAlias = AgentCallback
"""`(context)`; content that it returns is one more answer."""

BeforeModelCallback: TypeAlias = Callable[[CallbackContext, ModelRequest], _Request | Awaitable[_Request]]
"""`(context, request)`; a request takes the place of the request, a response that of the call."""

AfterModelCallback: TypeAlias = Callable[[CallbackContext, ModelResponse], _Response | Awaitable[_Response]]
"""`(context, response)`; a response takes the place of the response."""

OnModelErrorCallback: TypeAlias = Callable[
    [CallbackContext, ModelRequest, Exception], _Response | Awaitable[_Response]
]
"""`(context, request, error)`; a response takes the place of the error."""

BeforeToolCallback: TypeAlias = Callable[[Tool, dict[str, Any], ToolContext], _Result | Awaitable[_Result]]
"""`(tool, args, tool_context)`; a dict takes the place of the call."""

AfterToolCallback: TypeAlias = Callable[
    [Tool, dict[str, Any], ToolContext, dict[str, Any]], _Result | Awaitable[_Result]
]
"""`(tool, args, tool_context, tool_response)`; a dict takes the place of the response."""

OnToolErrorCallback: TypeAlias = Callable[
    [Tool, dict[str, Any], ToolContext, Exception], _Result | Awaitable[_Result]
]
"""`(tool, args, tool_context, error)`; a dict takes the place of the error."""
