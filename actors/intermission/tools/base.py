"""`Tool`: what a model can call, and `ToolContext`: what a call knows of its run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from intermission.actions import Actions
from intermission.errors import IntermissionError
from intermission.kernel.scope import CancelScope
from intermission.models.base import ToolDeclaration
from intermission.state import State

__all__ = ["Tool", "ToolArgumentError", "ToolContext", "is_async"]


class ToolArgumentError(IntermissionError):
    """A model called a tool with arguments that it does not take; the text is for the model."""


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
    """

    function_call_id: str
    invocation_id: str
    user_id: str
    session_id: str
    state: State
    cancellation: CancelScope
    actions: Actions
    request_stop: Callable[[str], None] = field(repr=False)

    def stop(self, reason: str = "") -> None:
        """Ask the run to end after the step in hand, as `Run.stop` does."""
        self.request_stop(reason)


@runtime_checkable
class Tool(Protocol):
    """A tool. `FunctionTool` makes one of a function.

    One whose attribute `is_async` is true promises that `call` returns an awaitable, and at once. In
    `ToolExecution.PARALLEL` such calls begin together, before those that may block.
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

        Raises:
            ToolArgumentError: The arguments do not fit; the model is told how.
            Exception: Anything else is logged, and the model is told that the tool failed.
        """
        ...


def is_async(tool: Tool | None) -> bool:
    """Return whether a tool promises that its calls go on without a thread."""
    return getattr(tool, "is_async", False) is True
