"""`call_tool`: one tool call, and what the model is told if it goes wrong."""

import asyncio
import inspect
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from intermission.actions import Actions
from intermission.content import FunctionCall, FunctionResponse, plain_copy
from intermission.errors import ToolFailedError
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models.base import ToolDeclaration
from intermission.pending import Confirmation
from intermission.runs.async_calls import CANCEL_ERRORS, Later, raised_or
from intermission.runs.environment import Environment
from intermission.runs.tool_hooks import ToolHooks, tool_steps
from intermission.runs.tool_steps import End, Rest, perform
from intermission.state import TEMP, State, StateChange
from intermission.tools.base import Tool, ToolArgumentError, ToolContext, ToolResultError, UnknownToolError
from intermission.tools.results import storable

__all__ = ["Answered", "call_tool", "failed"]

logger = logging.getLogger(__name__)

Answered: TypeAlias = tuple[FunctionResponse, StateChange, Actions]
"""A call's response, what it has changed and what it asks for: these go with the outcome, so that what an
abandoned call does to them is dropped, too."""


def call_tool(
    environment: Environment,
    call: FunctionCall,
    tools: Mapping[str, Tool],
    hooks: ToolHooks | None,
    scope: CancelScope,
    state: State,
    confirmation: Confirmation | None = None,
) -> Answered | Later:
    """Call a tool on this thread; what it leaves to be awaited is returned as `Later`.

    Raises:
        Exception: What a hook raised. That, and a `ToolFailedError`, may also come out of `Later.respond`.
    """
    tool, args = _resolved(call, tools)
    context = _context(environment, call, scope, state, confirmation)
    one = _ToolCall(environment, call, tool, args, context)
    return one.make() if hooks is None else one.make_with(hooks)


@dataclass(slots=True)
class _ToolCall:
    environment: Environment
    call: FunctionCall
    tool: Tool
    args: dict[str, Any]
    context: ToolContext

    def make(self) -> Answered | Later:
        try:
            result = self.tool.call(self.args, self.context)
            if inspect.isawaitable(result):
                return Later(result, self._respond)
            response: Mapping[str, Any] = storable(result)
        except (Exception, *CANCEL_ERRORS) as error:
            if isinstance(error, Cancelled) and self.context.cancellation.cancelled:
                raise
            response = self._told(error, False)
        return self._answered(response)

    def _respond(self, value: Any, error: BaseException | None) -> Answered:
        try:
            response: Mapping[str, Any] = storable(raised_or(value, error))
        except (Exception, *CANCEL_ERRORS) as raised:  # noqa: BLE001 - `_told` logs it
            response = self._told(raised, True)
        return self._answered(response)

    def make_with(self, hooks: ToolHooks) -> Answered | Later:
        steps = tool_steps(hooks, self.tool, self.args, self.context, self._told)
        done = perform(steps, self.context.cancellation, self.environment.submit)
        return Later(done, self._respond_rest) if isinstance(done, Rest) else self._answered(done)

    def _respond_rest(self, end: End | None, error: BaseException | None) -> Answered:
        if error is not None or end is None:  # not of the steps: the loop did not come to their end
            return self._answered(self._told(error or asyncio.CancelledError(), True))
        response, failure = end
        if failure is not None:
            raise failure
        return self._answered(response or {})

    def _answered(self, response: Mapping[str, Any]) -> Answered:
        change = self.context.state.take()
        if change.delta or change.operations:
            try:
                _check(change)
            except ToolResultError as error:
                logger.error("tool %s failed", self.call.name, exc_info=error, extra=self.environment.extra)
                response = failed(f"The tool did its work, but its changes of the state are lost: {error}")
                change = StateChange({}, ())
        return FunctionResponse(self.call.id, self.call.name, response), change, self.context.actions

    def _told(self, error: BaseException, awaited: bool) -> Mapping[str, Any]:
        """Return what the model is told of an error.

        Raises:
            ToolFailedError: The error was awaited, and is none that a model could do better about.
        """
        self.context.actions.requested_tool_confirmations.clear()  # this is the answer, and not a question
        if isinstance(error, ToolArgumentError):
            return failed(f"Wrong arguments: {error}")
        if isinstance(error, UnknownToolError):
            return failed(str(error))
        logger.error("tool %s failed", self.call.name, exc_info=error, extra=self.environment.extra)
        if isinstance(error, ToolResultError):
            return failed(f"The tool did its work, but its result cannot be passed on: {error}")
        if awaited:
            raise ToolFailedError(self.call.name, self.call.id, error) from error
        return failed()


class _Refused:
    """Stands for a tool in a call that no tool can take, so that hooks are asked about it as about others."""

    def __init__(self, declaration: ToolDeclaration, error: Exception) -> None:
        self.name = declaration.name
        self.declaration = declaration
        self._error = error

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        raise self._error


def _resolved(call: FunctionCall, tools: Mapping[str, Tool]) -> tuple[Tool, dict[str, Any]]:
    """Return the tool and the arguments, a copy, which it may change."""
    args: object = plain_copy(call.args)
    if isinstance(args, str):  # a model that gives text of JSON for an object
        with suppress(ValueError):
            args = json.loads(args or "{}")
    tool = tools.get(call.name)
    if tool is None:
        known = f"The tools are: {', '.join(tools)}." if tools else "There are no tools."
        error: Exception = UnknownToolError(f"There is no tool named {call.name!r}. {known}")
        tool = _Refused(ToolDeclaration(call.name, "", {"type": "object", "properties": {}}), error)
    elif not isinstance(args, dict):
        error = ToolArgumentError(f"they are of type {type(args).__name__}; give an object")
        tool = _Refused(tool.declaration, error)
    return tool, cast("dict[str, Any]", args) if isinstance(args, dict) else {}


def _check(change: StateChange) -> None:
    """Refuse what a log would; what is `temp:` never gets there."""
    storable({key: value for key, value in change.delta.items() if not key.startswith(TEMP)}, "state")
    for one in change.operations:
        if not one.key.startswith(TEMP):
            storable({one.key: one.value}, "state")


def _context(
    environment: Environment,
    call: FunctionCall,
    scope: CancelScope,
    state: State,
    confirmation: Confirmation | None,
) -> ToolContext:
    run = environment.run
    return ToolContext(
        function_call_id=call.id,
        invocation_id=run.invocation_id or "",
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        state=state,
        cancellation=scope,
        actions=Actions(),
        request_stop=run.request_stop,
        confirmation=confirmation,
        owner=environment,
    )


def failed(message: str = "The tool failed.") -> Mapping[str, Any]:
    """Return what the model is told of an error.

    By default it is told no more than that: an exception's text may hold what a model must not see.
    """
    return {"status": "error", "message": message}
