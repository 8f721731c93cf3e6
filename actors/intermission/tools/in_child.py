"""What a tool with `isolation="process"` is given and gives, in its child."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from intermission.actions import Actions
from intermission.isolation.errors import ReadOnlyContextError
from intermission.kernel.scope import CancelScope
from intermission.pending import Confirmation
from intermission.state import Operation, State
from intermission.tools.base import ToolContext
from intermission.tools.function import FunctionTool
from intermission.tools.results import as_response, storable

__all__ = ["checked", "context_of", "response_of"]


def checked(function: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as a function takes them.

    Raises:
        ToolArgumentError: They do not fit.
    """
    return FunctionTool(function).check(args)


def context_of(known: Mapping[str, Any], scope: CancelScope) -> ToolContext:
    """Return the context of a call. What it would change in the parent raises `ReadOnlyContextError`."""
    state, confirmation = known["state"], known["confirmation"]
    return ToolContext(
        function_call_id=known["function_call_id"],
        invocation_id=known["invocation_id"],
        user_id=known["user_id"],
        session_id=known["session_id"],
        state=_Snapshot(lambda: state),
        cancellation=scope,
        actions=_NoActions(),
        request_stop=_no_stop,
        confirmation=None if confirmation is None else Confirmation(**confirmation),
    )


def response_of(result: object) -> dict[str, Any]:
    """Return what a function returned as a response.

    Raises:
        ToolResultError: It has no such form, or no log takes it.
    """
    return storable(as_response(result))


class _Snapshot(State):
    """A state that is only to be read, as it was when the call began."""

    def __setitem__(self, key: str, value: Any) -> None:
        _refuse(f"state[{key!r}]")

    def __delitem__(self, key: str) -> None:
        _refuse(f"state[{key!r}]")

    def _operate(self, operation: Operation) -> None:
        _refuse(f"state[{operation.key!r}]")


class _NoActions(Actions):
    """Actions that nobody can ask for."""

    def __init__(self) -> None:
        for name, value in (
            ("skip_summarization", False),
            ("transfer_to_agent", None),
            ("escalate", False),
            ("end_of_agent", False),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        _refuse(f"actions.{name}")

    @property
    def requested_tool_confirmations(self) -> NoReturn:  # type: ignore[override]  # nobody gets it
        """A question whether the call may be made comes before its process; see `require_confirmation`."""
        _refuse("what asks for a confirmation")


def _no_stop(_: str) -> None:
    _refuse("the run's end, by stop()")


def _refuse(what: str) -> NoReturn:
    raise ReadOnlyContextError(what)
