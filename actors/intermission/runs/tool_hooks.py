"""`ToolHooks`: who is asked about a tool call, and `tool_steps`: in which order, as a generator.

The generator calls nothing itself, so that it does not matter on which thread or loop it goes on.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from intermission.agents.effects import ToolUser
from intermission.agents.plugins import Plugins
from intermission.content import plain_copy
from intermission.errors import HookResultError, UnrequestedCancelError
from intermission.kernel.workers import Budget
from intermission.runs.async_calls import CANCEL_ERRORS
from intermission.runs.calls import CallGivenUpError
from intermission.runs.hooks import hook_name
from intermission.tools.base import Tool, ToolContext, is_async
from intermission.tools.results import storable

__all__ = ["Step", "Steps", "ToolHooks", "tool_hooks", "tool_steps"]


class _Hook(NamedTuple):
    """A plugin's method, which takes keywords, or an agent's callback, which takes none."""

    function: Callable[..., Any]
    keywords: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - an object's, which may be async
        )

    def ask(self, *values: object) -> Any:
        if not self.keywords:
            return self.function(*values)
        return self.function(**dict(zip(self.keywords, values, strict=True)))


_Hooks: TypeAlias = tuple[_Hook, ...]

_BEFORE = ("tool", "tool_args", "tool_context")
_AFTER = (*_BEFORE, "result")
_FAILED = (*_BEFORE, "error")


class ToolHooks(NamedTuple):
    """Who is asked before a call, after it, and when it fails: plugins first, then the agent's callbacks."""

    before: _Hooks
    after: _Hooks
    failed: _Hooks


def tool_hooks(plugins: Plugins, agent: ToolUser | None) -> ToolHooks | None:
    """Return who is asked about an agent's calls, `None` if nobody is."""
    before, after = plugins.hooks("before_tool_callback"), plugins.hooks("after_tool_callback")
    failed = plugins.hooks("on_tool_error_callback")
    mine: tuple[tuple[Callable[..., Any], ...], ...] = ((), (), ())
    if agent is not None:
        mine = (agent.before_tool_callbacks, agent.after_tool_callbacks, agent.on_tool_error_callbacks)
    if not (before or after or failed or any(mine)):
        return None
    return ToolHooks(
        _hooks(before, _BEFORE, mine[0]),
        _hooks(after, _AFTER, mine[1]),
        _hooks(failed, _FAILED, mine[2]),
    )


def _hooks(
    of_plugins: tuple[Callable[..., Any], ...],
    keywords: tuple[str, ...],
    of_agent: tuple[Callable[..., Any], ...],
) -> _Hooks:
    return (
        *[_Hook(function, keywords) for function in of_plugins],
        *[_Hook(function, ()) for function in of_agent],
    )


@dataclass(slots=True)
class Step:
    """One thing that is called for a tool call.

    Attributes:
        function: What is called.
        on_loop: Whether it returns an awaitable, and at once, so that a loop may call it.
        budget: On whose account a worker calls it.
        awaited: Set by who calls it, once it has returned an awaitable.
    """

    function: Callable[[], Any]
    on_loop: bool
    budget: Budget
    awaited: bool = False


Steps: TypeAlias = Generator[Step, Any, Mapping[str, Any]]
"""Yields what is to be called next, and is sent what came of it, or thrown what was raised."""


def tool_steps(
    hooks: ToolHooks,
    tool: Tool,
    args: dict[str, Any],
    context: ToolContext,
    told: Callable[[BaseException, bool], Mapping[str, Any]],
) -> Steps:
    """Make a call with its hooks; return the response.

    Args:
        hooks: Who is asked.
        tool: The tool.
        args: What the model gave. Hooks may change it.
        context: The call's.
        told: Returns the response to an error that no hook answers, or raises what fails the run; it is told
            whether the error was awaited.

    Raises:
        Exception: What `told` or a hook raises.
    """
    result = yield from _first(hooks.before, tool, args, context)
    if result is None:
        # A copy, for what the tool does to it is no business of the hooks.
        step = Step(partial(_call, tool, args, context), is_async(tool), Budget.CALLS)
        try:
            result = storable((yield step))
        except CallGivenUpError:  # it was not begun
            raise
        except (Exception, *CANCEL_ERRORS) as error:  # noqa: BLE001 - the hooks have it, or `told`
            told_of = error
            if not isinstance(error, Exception):
                told_of = UnrequestedCancelError(f"tool {tool.declaration.name!r}", error)
            result = yield from _first(hooks.failed, tool, args, context, told_of)
            if result is None:
                return told(error, step.awaited)
    replaced = yield from _first(hooks.after, tool, args, context, result)
    # Looked at again, for a hook may have changed it in place.
    return storable(result if replaced is None else replaced)


def _call(tool: Tool, args: dict[str, Any], context: ToolContext) -> Any:
    return tool.call(plain_copy(args), context)


def _first(hooks: _Hooks, *values: object) -> Generator[Step, Any, dict[str, Any] | None]:
    """Ask one hook after another until one has an answer."""
    for hook in hooks:
        try:
            answer = yield Step(partial(hook.ask, *values), hook.is_async, Budget.HOOKS)
        except CANCEL_ERRORS as error:
            raise UnrequestedCancelError(f"the hook {hook_name(hook.function)}", error) from error
        if isinstance(answer, dict):
            return cast("dict[str, Any]", answer)
        if answer is not None:
            raise HookResultError(hook_name(hook.function), answer, "a dict")
    return None
