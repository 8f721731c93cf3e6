"""`Later`: what a call returns that goes on without its thread, on the loop of async tools."""

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from intermission.kernel.loop_task import close_awaitable

__all__ = ["LATER", "Later", "raised_or"]

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
