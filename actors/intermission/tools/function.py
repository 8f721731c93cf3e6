"""`FunctionTool`: a tool made of a plain function, its signature and its docstring."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

from intermission.models.base import ToolDeclaration
from intermission.tools.base import ToolContext

__all__ = ["FunctionTool"]

_CONTEXT_NAME = "tool_context"


class FunctionTool:
    """A tool that calls a plain function.

    The function's signature is the schema, its docstring the description. A parameter that is named
    `tool_context` or annotated `ToolContext` gets the call's context and is not shown to the model. A dict
    that the function returns is the response; any other value `x` is answered as `{"result": x}`. Models,
    dataclasses, dates and the like become plain values.

    Args:
        func: The function. It runs on the run's thread and may block.
        name: The name that the model sees; the function's own by default.
        description: What the model is told; the docstring by default.

    Raises:
        TypeError: There is no name, the function is a coroutine function, or it has a parameter that a model
            cannot give: `*args`, `**kwargs`, a positional-only one, or one whose type has no JSON schema.
    """

    def __init__(
        self, func: Callable[..., Any], *, name: str | None = None, description: str | None = None
    ) -> None:
        from intermission.tools.arguments import Arguments, plain

        self.func = func
        self.name = name or str(getattr(func, "__name__", ""))
        if not self.name:
            raise TypeError(f"a tool made of {func!r} needs name=: it has none of its own")
        if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(f"tool {self.name!r} is async; only plain functions can be tools in this version")
        hints = _hints(func, self.name)
        self._context_name, parameters = _parameters(func, self.name, hints)
        self._arguments = Arguments(self.name, parameters, hints)
        self._plain = plain
        self._declaration = ToolDeclaration(
            name=self.name,
            description=description if description is not None else inspect.getdoc(func) or "",
            parameters=self._arguments.schema,
        )

    @property
    def declaration(self) -> ToolDeclaration:
        """See `Tool.declaration`."""
        return self._declaration

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """See `Tool.call`."""
        values = self._arguments.check(args)
        if self._context_name is not None:
            values[self._context_name] = context
        result = self._plain(self.func(**values))
        return cast("dict[str, Any]", result) if isinstance(result, dict) else {"result": result}


def _hints(func: Callable[..., Any], tool: str) -> dict[str, Any]:
    annotated: Any = _unwrapped(func)
    if not inspect.isroutine(annotated):
        annotated = annotated.__call__
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {tool!r}: an annotation cannot be resolved: {error}") from error


def _unwrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    return _unwrapped(func.func) if isinstance(func, functools.partial) else func


def _parameters(
    func: Callable[..., Any], tool: str, hints: Mapping[str, Any]
) -> tuple[str | None, list[inspect.Parameter]]:
    context_name: str | None = None
    given: list[inspect.Parameter] = []
    for parameter in inspect.signature(func).parameters.values():
        if parameter.name == _CONTEXT_NAME or hints.get(parameter.name) is ToolContext:
            context_name = parameter.name
        elif parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"tool {tool!r}: a model cannot give the parameter {parameter}; use named ones")
        else:
            given.append(parameter)
    return context_name, given
