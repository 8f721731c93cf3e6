"""`Tool`: what a model can call, and `ToolContext`: what a call knows of its run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from intermission.actions import Actions
from intermission.content import FunctionCall
from intermission.errors import IntermissionError
from intermission.isolation.children import Owner
from intermission.kernel.scope import CancelScope
from intermission.models.base import ToolDeclaration
from intermission.pending import Confirmation
from intermission.state import State
from intermission_storage.codec import encode_value

__all__ = [
    "LookUp",
    "OnResume",
    "Tool",
    "ToolArgumentError",
    "ToolContext",
    "ToolResultError",
    "UnknownToolError",
    "is_async",
    "is_long_running",
    "on_resume",
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
        confirmation: What was said to the question whether the call may be made; `None` before that.
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
    confirmation: Confirmation | None = None
    owner: Owner | None = field(default=None, repr=False)

    def request_confirmation(self, hint: str = "", payload: Any = None) -> None:
        """Ask whether the call may be made; the tool then returns at once, with whatever.

        What it returns and what it has changed in the state is dropped. When the answer is there, it is
        called again, under the same id, and finds the answer in `confirmation`.

        Args:
            hint: What the person who is asked should know.
            payload: Plain values for that person's screen, such as a form to be filled in.

        Raises:
            EncodingError: The payload holds other than plain values.
        """
        given = Confirmation(False, payload, hint).to_dict()
        encode_value(given)
        self.actions.requested_tool_confirmations[self.function_call_id] = given

    def stop(self, reason: str = "") -> None:
        """Ask the run to end after the step in hand, as `Run.stop` does."""
        self.request_stop(reason)


@runtime_checkable
class Tool(Protocol):
    """A tool. `FunctionTool` makes one of a function.

    Four attributes are optional. One whose `is_async` is true promises that `call` returns an awaitable, and
    at once: in `ToolExecution.PARALLEL` such calls begin together, before those that may block. `timeout`,
    in seconds, stands for `RunConfig.tool_timeout` in its calls, unless it is `None`. One whose
    `is_long_running` is true may return nothing: its response then comes from outside, as an answer.
    `on_resume` says what becomes of a call that had begun when its process died, as of `FunctionTool`.
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


class OnResume(StrEnum):
    """What becomes of a call that had begun, and of which no end is known, when its run is gone on with."""

    RERUN = "rerun"
    """It is made again, under the same id."""
    ASK = "ask"
    """A person is asked: it becomes a pending call."""
    FAIL = "fail"
    """It is not made again; the model is told that its outcome is unknown."""


LookUp: TypeAlias = Callable[[FunctionCall], Mapping[str, Any] | None]
"""Finds out what came of a call: its response, or `None` if it is to be made again."""


def on_resume(tool: Tool | None) -> OnResume | LookUp:
    """Return what becomes of a tool's call of which no end is known."""
    policy: OnResume | LookUp = getattr(tool, "on_resume", OnResume.RERUN)
    return policy


def is_long_running(tool: Tool | None) -> bool:
    """Return whether the response to a tool's call may come from outside."""
    return getattr(tool, "is_long_running", False) is True


def time_limit(tool: Tool | None, default: float | None) -> float | None:
    """Return how many seconds a call of a tool may take: its own limit, if it has one, or the default."""
    limit: float | None = getattr(tool, "timeout", None)
    return default if limit is None else limit
