"""`FunctionTool`: a tool made of a function, plain or async, its signature and its docstring; `tool`."""

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Literal, TypeAlias, overload

from intermission.models.base import ToolDeclaration
from intermission.tools.base import LookUp, OnResume, ToolContext
from intermission.tools.futures import FutureResult
from intermission.tools.process import ProcessFunction
from intermission.tools.results import as_response

__all__ = [
    "FunctionTool",
    "Isolation",
    "LongRunningFunctionTool",
    "RequireConfirmation",
    "confirmation_needed",
    "tool",
]

Isolation: TypeAlias = Literal["thread", "process"]
"""Where a function is called."""

RequireConfirmation: TypeAlias = bool | Callable[..., bool]
"""Whether a person has to say yes before a call is made, or a function of its arguments that tells."""


class FunctionTool:
    """A tool that calls a function, plain or async. It can still be called as the function.

    The function's signature is the schema, its docstring the description; what that says of parameters, in
    the style of Google, numpy or Sphinx, goes to the parameters. A parameter that is named `tool_context`
    or annotated `ToolContext` gets the call's context and is not shown to the model, and neither is what a
    `partial` has bound. A dict that the function returns is the response, `None` an empty one; any other
    value `x` is answered as `{"result": x}`. Models, dataclasses, dates and the like become plain values.

    An async function runs as a task on the runner's loop (see `Runner`), and so does an awaitable that a
    plain function returns. It must not block: all others on the loop would wait. When the call is given up,
    the task is cancelled. A `concurrent.futures.Future` is waited for in the same way; one that already runs
    cannot be cancelled, and is residual work until it is done.

    Args:
        func: The function. A plain one runs on the run's thread and may block.
        name: The name that the model sees; the function's own by default.
        description: What the model is told; the docstring by default.
        isolation: With `"process"` the function is called in a child process, which can be ended whatever it
            does. It is a plain one, defined at the top level of a module; arguments and results travel as
            plain values, and the state is only to be read.
        timeout: Seconds that a call may take, instead of `RunConfig.tool_timeout`.
        require_confirmation: Whether a person has to say yes before a call is made: always, or when a
            function of the arguments, called like the tool, says so.
        on_resume: What becomes of a call that had begun, and of which no end is known, when its run is gone
            on with: `"rerun"`, `"ask"`, `"fail"`, or a function of the `FunctionCall` that looks up what came
            of it, and returns the response, or `None` to make the call again. Where it raises an error, the
            model is told that the outcome is unknown, as with `"fail"`.

    Raises:
        TypeError: It is no function, has no name, is an async generator, or has a parameter that a model
            cannot give: `*args`, `**kwargs`, a positional-only one, or one whose type has no JSON schema; or
            a child process would not find it; or `require_confirmation` or `on_resume` is an async function.
        ValueError: The timeout is not above zero, or `isolation` or `on_resume` is none of those.

    Attributes:
        is_async: Whether the function is an async one.
        isolation: Where it is called.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation = "thread",
        timeout: float | None = None,
        require_confirmation: RequireConfirmation = False,
        on_resume: OnResume | str | LookUp = OnResume.RERUN,
    ) -> None:
        # Here: they need pydantic and more, and a program without tools does not wait for that.
        from intermission.tools.arguments import Arguments
        from intermission.tools.docstrings import described_parameters
        from intermission.tools.signature import Signature

        if not callable(func):  # pyright: ignore[reportUnnecessaryComparison] - callers without types
            raise TypeError(f"a tool is made of a function or another callable, not of {func!r}")
        self.func = func
        self.name = name or str(getattr(func, "__name__", ""))
        if self.name in {"", "<lambda>"}:
            raise TypeError(f"a tool made of {func!r} needs name=: it has none of its own")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout of tool {self.name!r} is {timeout}: give seconds above 0, or None")
        if isolation not in {"thread", "process"}:
            raise ValueError(f"isolation of tool {self.name!r} is {isolation!r}: give 'thread' or 'process'")
        self.timeout = timeout
        self.isolation = isolation
        self._process = ProcessFunction(func, self.name) if isolation == "process" else None
        if not isinstance(require_confirmation, bool) and not callable(require_confirmation):
            raise TypeError(
                f"require_confirmation of tool {self.name!r} must be a bool or a function of the arguments"
            )
        if callable(require_confirmation) and inspect.iscoroutinefunction(require_confirmation):
            raise TypeError(
                f"require_confirmation of tool {self.name!r} must be a plain function: nobody would await an "
                "async one. A tool that must wait for what it needs asks by tool_context.request_confirmation"
            )
        self.require_confirmation = require_confirmation
        if callable(on_resume) and inspect.iscoroutinefunction(on_resume):
            raise TypeError(
                f"on_resume of tool {self.name!r} must be a plain function, which may block: nobody would "
                "await an async one"
            )
        self.on_resume = on_resume if callable(on_resume) else OnResume(on_resume)
        signature = Signature(func, self.name)
        self.is_async = signature.is_async
        self._context_name = signature.context_name
        named = {parameter.name for parameter in signature.parameters}
        said, descriptions = described_parameters(signature.docstring, named | {signature.context_name or ""})
        self._arguments = Arguments(self.name, signature.parameters, signature.hints, descriptions)
        self._declaration = ToolDeclaration(
            name=self.name,
            description=said if description is None else description,
            parameters=self._arguments.schema,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, as if it were no tool."""
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    @property
    def declaration(self) -> ToolDeclaration:
        """See `Tool.declaration`."""
        return self._declaration

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them.

        Raises:
            ToolArgumentError: They do not fit; the text tells the model what is wrong with which.
        """
        return self._arguments.check(args)

    def call(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """See `Tool.call`."""
        values = self.check(args)
        refused = self._refused(args, context) if self.require_confirmation else None
        if refused is not None:
            return refused
        if self._process is not None:
            return self._process.call(args, values, context, self._context_name)
        if self._context_name is not None:
            values[self._context_name] = context
        result = self.func(**values)
        if _is_awaited(result):
            return _Answer(result)
        return as_response(result)

    def _refused(self, args: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any] | None:
        """Return the response to a call that may not be made, or not yet."""
        if context.confirmation is None:
            asks = self.require_confirmation
            # Its arguments are its own: the call is made with those that it was asked about.
            if callable(asks) and not asks(**self.check(args)):
                return None
            context.request_confirmation(f"May the tool {self.name} be called with these arguments?")
            return confirmation_needed()
        if context.confirmation.confirmed:
            return None
        message = "The call was rejected, and not made."
        reason = context.confirmation.hint
        return {"status": "rejected", "message": f"{message} {reason}" if reason else message}


class LongRunningFunctionTool(FunctionTool):
    """A tool whose function begins what takes long, and whose response may come from outside.

    A function that returns `None`, or an empty dict, leaves its call pending: in a resumable app the run
    pauses, and goes on when the answer is there. One that returns anything else has answered.

    Args:
        func: The function. It is called once; who has the work done answers with the `id` of the
            `PendingCall`, which is `tool_context.function_call_id`.
        name: See `FunctionTool`.
        description: See `FunctionTool`.
        timeout: See `FunctionTool`.
        require_confirmation: See `FunctionTool`.
        on_resume: See `FunctionTool`.

    Raises:
        TypeError: See `FunctionTool`.
        ValueError: See `FunctionTool`.
    """

    is_long_running = True


def confirmation_needed() -> Mapping[str, Any]:
    """Return the response to a call that waits until a person says yes, where a run does not pause."""
    return {"status": "error", "message": "This call needs a person's confirmation, and was not made yet."}


@overload
def tool(func: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    isolation: Isolation = "thread",
    timeout: float | None = None,
    require_confirmation: RequireConfirmation = False,
    on_resume: OnResume | str | LookUp = OnResume.RERUN,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    isolation: Isolation = "thread",
    timeout: float | None = None,
    require_confirmation: RequireConfirmation = False,
    on_resume: OnResume | str | LookUp = OnResume.RERUN,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of the function below: `@tool`, or `@tool(name=…, timeout=…)`, as `FunctionTool` takes it.

    For a method, give `FunctionTool` the bound one instead: here it would be a function that takes `self`.
    """

    def decorate(decorated: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(
            decorated,
            name=name,
            description=description,
            isolation=isolation,
            timeout=timeout,
            require_confirmation=require_confirmation,
            on_resume=on_resume,
        )

    return decorate if func is None else decorate(func)


def _is_awaited(result: object) -> bool:
    return isinstance(result, concurrent.futures.Future) or inspect.isawaitable(result)


def _awaitable(result: Any) -> Any:
    future: concurrent.futures.Future[Any] = result
    return FutureResult(future) if isinstance(result, concurrent.futures.Future) else result


class _Answer(Awaitable[Mapping[str, Any]]):
    """What a function answers whose result is awaited."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def __await__(self) -> Generator[Any, Any, Mapping[str, Any]]:
        return self._wait().__await__()

    async def _wait(self) -> Mapping[str, Any]:
        result = self._result
        while _is_awaited(result):  # an async function may return a task
            result = await _awaitable(result)
        return as_response(result)

    def close(self) -> bool:
        """Nobody will await it; return whether it has ended with that."""
        result = _awaitable(self._result)
        if isinstance(result, FutureResult):
            return result.close()
        if isinstance(result, asyncio.Future):
            loop: asyncio.AbstractEventLoop = result.get_loop()
            loop.call_soon_threadsafe(result.cancel)
            return result.done()
        if inspect.iscoroutine(result):
            result.close()
        return True
