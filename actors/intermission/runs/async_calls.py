"""`Later`: what a call returns that goes on without its thread, on the loop of async tools."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from intermission.kernel.loop_task import close_awaitable
from intermission.kernel.scope import Cancelled, CancelScope

__all__ = ["CANCEL_ERRORS", "LATER", "Later", "function_call", "raised_or"]

CANCEL_ERRORS: Final = (asyncio.CancelledError, Cancelled)
"""What tells code of a cancel, and may come without one: from a task or a scope of that code's own."""

LATER: Final = object()
"""The value of an outcome that comes later, to whoever `Blocking.detach` names."""


@dataclass(slots=True)
class Later:
    """The rest of a call.

    Attributes:
        awaitable: What is awaited.
        respond: Makes the call's value of what came of that; it is given a value, or an error to raise.
        context: The context variables of the task; those of where this is made, by default.
    """

    awaitable: Awaitable[Any]
    respond: Callable[[Any, BaseException | None], Any]
    context: Context = field(default_factory=copy_context)

    def drop(self) -> bool:
        """Nobody needs it; return whether nothing of it goes on, so that it need not be awaited."""
        return close_awaitable(self.awaitable)


def raised_or(value: Any, error: BaseException | None) -> Any:
    """Raise the error, or return the value if there is none."""
    if error is not None:
        raise error
    return value


def function_call(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[CancelScope], Any]:
    """Return what calls a function, plain or async, inside a call of its own; see `Blocking.function`."""

    def call(_: CancelScope) -> Any:
        result = function(*args)
        return Later(result, raised_or) if inspect.isawaitable(result) else result

    return call
