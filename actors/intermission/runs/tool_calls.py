"""`call_tool`: one tool call, and what the model is told if it goes wrong."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from intermission.actions import Actions
from intermission.content import FunctionCall, FunctionResponse, plain_copy
from intermission.kernel.scope import CancelScope
from intermission.runs.async_calls import Later, raised_or
from intermission.runs.environment import Environment
from intermission.state import State
from intermission.tools.base import Tool, ToolArgumentError, ToolContext
from intermission_storage.codec import encode_value

__all__ = ["Answered", "call_tool"]

logger = logging.getLogger(__name__)

Answered: TypeAlias = tuple[FunctionResponse, State, Actions]
"""A call's response, what it has changed and what it asks for: these go with the outcome, so that what an
abandoned call does to them is dropped, too."""


def call_tool(
    environment: Environment, call: FunctionCall, tool: Tool | None, scope: CancelScope, state: State
) -> Answered | Later:
    """Call a tool on this thread; what it leaves to be awaited is returned as `Later`."""
    if tool is None:
        return _failed(call, f"There is no tool named {call.name!r}."), state, Actions()
    actions = Actions()
    context = _context(environment, call, scope, state, actions)
    awaited: list[Any] = []

    def begin() -> Any:
        result = tool.call(plain_copy(call.args), context)
        if inspect.isawaitable(result):
            awaited.append(result)
            return {}
        return result

    def respond(value: Any, error: BaseException | None) -> Answered:
        return _response(environment, call, lambda: raised_or(value, error)), state, actions

    response = _response(environment, call, begin)
    if awaited:
        return Later(awaited[0], respond)
    return response, state, actions


def _context(
    environment: Environment, call: FunctionCall, scope: CancelScope, state: State, actions: Actions
) -> ToolContext:
    run = environment.run
    return ToolContext(
        function_call_id=call.id,
        invocation_id=run.invocation_id or "",
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        state=state,
        cancellation=scope,
        actions=actions,
        request_stop=run.request_stop,
    )


def _response(
    environment: Environment, call: FunctionCall, make: Callable[[], Mapping[str, Any]]
) -> FunctionResponse:
    try:
        response = make()
        encode_value(response)  # a result that the log refuses is the tool's failure
        return FunctionResponse(call.id, call.name, response)
    except ToolArgumentError as error:
        return _failed(call, f"Wrong arguments: {error}")
    except (Exception, asyncio.CancelledError):
        # The text of somebody's exception may hold what a model must not see; the log has it. And what was
        # cancelled inside a tool, by the tool, has cancelled nothing of ours.
        logger.exception("tool %s failed", call.name, extra=environment.extra)
        return _failed(call, "The tool failed.")


def _failed(call: FunctionCall, message: str) -> FunctionResponse:
    return FunctionResponse(call.id, call.name, {"status": "error", "message": message})
