"""`Signature`: what a tool's function takes, and which of it a model gives."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from intermission.tools.base import ToolContext

__all__ = ["Signature"]

_CONTEXT_NAME = "tool_context"
_UNIONS = (typing.Union, types.UnionType)


class Signature:
    """What a function takes, plain or async, a method, a `partial` or an object that can be called.

    Args:
        func: The function.
        tool: The tool's name, for messages.

    Raises:
        TypeError: It has no signature, a model cannot give one of the parameters, two of them get the
            context, or an annotation cannot be resolved.

    Attributes:
        context_name: The parameter that gets the call's context, if there is one.
        parameters: Those that a model gives. What a `partial` has bound by name is none of them.
        hints: Their annotations, resolved.
        docstring: The function's, or that of the object's class; `""` if there is none.
        is_async: Whether a call returns a coroutine.
    """

    def __init__(self, func: Callable[..., Any], tool: str) -> None:
        bound: set[str] = set()
        inner: Any = func
        while isinstance(inner, functools.partial):
            bound |= inner.keywords.keys()
            inner = inner.func
        called: Any = inner if inspect.isroutine(inner) else inner.__call__
        if inspect.isasyncgenfunction(called):
            raise TypeError(f"tool {tool!r} is an async generator; a tool returns one value, by return")
        self.is_async = inspect.iscoroutinefunction(called)
        self.docstring = inspect.getdoc(inner) or inspect.getdoc(called) or ""
        try:
            every = inspect.signature(func).parameters
        except ValueError as error:  # of some built-in functions and types
            raise TypeError(f"tool {tool!r}: {error}") from error
        self.hints = _hints(called, tool, [name for name in every if name not in bound])
        self.context_name: str | None = None
        self.parameters: list[inspect.Parameter] = []
        for parameter in every.values():
            if parameter.name in bound:
                continue
            if parameter.name == _CONTEXT_NAME or _is_context(self.hints.get(parameter.name)):
                if self.context_name is not None:
                    both = f"{self.context_name!r} and {parameter.name!r}"
                    raise TypeError(f"tool {tool!r}: {both} both take the call's context; keep one")
                self.context_name = parameter.name
            elif parameter.kind in {
                parameter.POSITIONAL_ONLY,
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            }:
                raise TypeError(
                    f"tool {tool!r}: a model cannot give the parameter {parameter}; use named ones"
                )
            else:
                self.parameters.append(parameter)


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    if typing.get_origin(hint) in _UNIONS:
        return any(_is_context(member) for member in typing.get_args(hint))
    return hint is ToolContext


def _hints(called: Any, tool: str, names: list[str]) -> Mapping[str, Any]:
    """Return the annotations of these parameters; what the function returns may be known to nobody."""
    unwrapped = inspect.unwrap(called)
    annotations: dict[str, Any] = getattr(unwrapped, "__annotations__", {})
    # By its name it is known what it gets, whether or not the class was imported for more than type checkers.
    wanted = {name: annotations[name] for name in names if name in annotations and name != _CONTEXT_NAME}
    holder = types.SimpleNamespace(__annotations__=wanted)
    try:
        return typing.get_type_hints(
            holder, globalns=getattr(unwrapped, "__globals__", {}), include_extras=True
        )
    except NameError as error:
        raise TypeError(f"tool {tool!r}: an annotation cannot be resolved: {error}") from error
