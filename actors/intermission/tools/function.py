"""`FunctionTool`: a tool made of a function, plain or async, its signature and its docstring."""

import concurrent.futures
import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, cast

from intermission.models.base import ToolDeclaration
from intermission.tools.base import ToolContext
from intermission.tools.futures import FutureResult

__all__ = ["FunctionTool"]

_CONTEXT_NAME = "tool_context"


class FunctionTool:
    """A tool that calls a function, plain or async.

    The function's signature is the schema, its docstring the description. A parameter that is named
    `tool_context` or annotated `ToolContext` gets the call's context and is not shown to the model. A dict
    that the function returns is the response; any other value `x` is answered as `{"result": x}`. Models,
    dataclasses, dates and the like become plain values.

    An async function runs as a task on the runner's loop (see `Runner`), and so does an awaitable that a
    plain function returns. It must not block: all others on the loop would wait. When the call is given up,
    the task is cancelled. A `concurrent.futures.Future` is waited for in the same way; one that already runs
    cannot be cancelled, and is residual work until it is done.

    Args:
        func: The function. A plain one runs on the run's thread and may block.
        name: The name that the model sees; the function's own by default.
        description: What the model is told; the docstring by default.

    Raises:
        TypeError: There is no name, the function is an async generator, or it has a parameter that a model
            cannot give: `*args`, `**kwargs`, a positional-only one, or one whose type has no JSON schema.

    Attributes:
        is_async: Whether the function is an async one.
    """

    def __init__(
        self, func: Callable[..., Any], *, name: str | None = None, description: str | None = None
    ) -> None:
        from intermission.tools.arguments import Arguments, plain

        self.func = func
        self.name = name or str(getattr(func, "__name__", ""))
        if not self.name:
            raise TypeError(f"a tool made of {func!r} needs name=: it has none of its own")
        called = _called(func)
        if inspect.isasyncgenfunction(called):
            raise TypeError(f"tool {self.name!r} is an async generator; a tool returns one value, by return")
        self.is_async = inspect.iscoroutinefunction(called)
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

    def call(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """See `Tool.call`."""
        values = self._arguments.check(args)
        if self._context_name is not None:
            values[self._context_name] = context
        result = self.func(**values)
        if isinstance(result, concurrent.futures.Future):
            return _Answer(FutureResult(result), self._response)  # pyright: ignore[reportUnknownArgumentType]  # of anything
        if inspect.isawaitable(result):
            return _Answer(result, self._response)
        return self._response(result)

    def _response(self, result: object) -> Mapping[str, Any]:
        plain = self._plain(result)
        return cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"result": plain}


class _Answer(Awaitable[Mapping[str, Any]]):
    """What an async function answers."""

    def __init__(self, result: Awaitable[Any], respond: Callable[[object], Mapping[str, Any]]) -> None:
        self._result = result
        self._respond = respond

    def __await__(self) -> Generator[Any, Any, Mapping[str, Any]]:
        return self._wait().__await__()

    async def _wait(self) -> Mapping[str, Any]:
        return self._respond(await self._result)

    def close(self) -> bool:
        """Nobody will await it; return whether it has ended with that."""
        if isinstance(self._result, FutureResult):
            return self._result.close()
        if inspect.iscoroutine(self._result):
            self._result.close()
        return True


def _hints(func: Callable[..., Any], tool: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(_called(func), include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {tool!r}: an annotation cannot be resolved: {error}") from error


def _called(func: Callable[..., Any]) -> Any:
    """Return what has the code: the function in a `partial`, the `__call__` of an object."""
    unwrapped: Any = _unwrapped(func)
    return unwrapped if inspect.isroutine(unwrapped) else unwrapped.__call__


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
