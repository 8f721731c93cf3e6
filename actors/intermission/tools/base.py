"""`Tool`: what a model can call, and `ToolContext`: what a call knows of its run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from intermission.actions import Actions
from intermission.errors import IntermissionError
from intermission.isolation.children import Owner
from intermission.kernel.scope import CancelScope
from intermission.models.base import ToolDeclaration
from intermission.state import State

__all__ = [
    "Tool",
    "ToolArgumentError",
    "ToolContext",
    "ToolResultError",
    "UnknownToolError",
    "is_async",
    "time_limit",
]


class ToolArgumentError(IntermissionError):
    """A model called a tool with arguments that it does not take; the text is for the model."""


class UnknownToolError(IntermissionError):
    """A model called a tool that there is not; the text is for the model."""


class ToolResultError(IntermissionError):
    """A tool did its work, but what it returned cannot be passed on; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call that it serves.

    Attributes:
        function_call_id: The call's id, unique in the session: the key for effects that must not double.
        invocation_id: The run.
        user_id: The session's user.
        session_id: The session.
        state: The session's state. What the tool changes is stored with its response, or dropped with it.
        cancellation: The call's scope: cancelled when the call, or its run, is given up.
        actions: What the tool asks for beside its response, such as a transfer to another agent.
        owner: The run, for tools that are called in a process; `None` for a call of no run.
    """

    function_call_id: str
    invocation_id: str
    user_id: str
    session_id: str
    state: State
    cancellation: CancelScope
    actions: Actions
    request_stop: Callable[[str], None] = field(repr=False)
    owner: Owner | None = field(default=None, repr=False)

    def stop(self, reason: str = "") -> None:
        """Ask the run to end after the step in hand, as `Run.stop` does."""
        self.request_stop(reason)


@runtime_checkable
class Tool(Protocol):
    """A tool. `FunctionTool` makes one of a function.

    Two attributes are optional. One whose `is_async` is true promises that `call` returns an awaitable, and
    at once: in `ToolExecution.PARALLEL` such calls begin together, before those that may block. `timeout`,
    in seconds, stands for `RunConfig.tool_timeout` in its calls, unless it is `None`.
    """

    @property
    def declaration(self) -> ToolDeclaration:
        """What the model is told of it."""
        ...

    def call(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Do it, on a thread that may block, and return plain values for the model.

        An awaitable of them is awaited on the loop of async tools; no thread waits for it. When the call is
        given up, its task is cancelled.

        Args:
            args: What the model gave, or hooks have made of it; a copy, which is the tool's own.
            context: The call's.

        Raises:
            ToolArgumentError: The arguments do not fit; the model is told how.
            ToolResultError: The work is done, but there is no result to pass on; the model is told why.
            Exception: Anything else is logged, and the model is told that the tool failed. Out of an
                awaitable it fails the run, with `ToolFailedError`. In both cases hooks may answer instead.
        """
        ...


def is_async(tool: Tool | None) -> bool:
    """Return whether a tool promises that its calls go on without a thread."""
    return getattr(tool, "is_async", False) is True


def time_limit(tool: Tool | None, default: float | None) -> float | None:
    """Return how many seconds a call of a tool may take: its own limit, if it has one, or the default."""
    limit: float | None = getattr(tool, "timeout", None)
    return default if limit is None else limit
