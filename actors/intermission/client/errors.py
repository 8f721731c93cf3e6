"""What a call of a client can fail with, beside the errors of the runtime, and what kind each error is of."""

import asyncio
import concurrent.futures
from collections.abc import Iterator
from typing import Final

from intermission import errors
from intermission.errors import IntermissionError, ModelError, ModelErrorKind
from intermission.isolation.errors import (
    ReadOnlyContextError,
    ToolProcessError,
    ToolRaisedError,
    UnguardedScriptError,
)
from intermission.kernel.cancel_hooks import Cancelled
from intermission.kernel.crash import text_of
from intermission.kernel.ref import (
    ActorDeadError,
    AskCycleError,
    AskTimeoutError,
    SystemClosedError,
    SystemForkedError,
)
from intermission.kernel.waits import ReentrantRunError
from intermission.runs.calls import CallGivenUpError
from intermission.tools.base import ToolArgumentError, ToolResultError, UnknownToolError
from intermission_storage import ConflictError, StorageError

__all__ = [
    "CancelledError",
    "ClientClosedError",
    "ListenerError",
    "LlmError",
    "ValidationError",
    "is_cancellation",
    "is_recoverable",
    "kind_of",
    "retry_after_of",
]


class CancelledError(IntermissionError):
    """The call was cancelled: its scope, its handle or its turn. What was stored before is kept.

    Attributes:
        reason: What the canceller said; `""` if nothing.
        source: Who or what cancelled, such as `"deadline"`, if that was said.
        session_id: The session of a turn; `None` where there is none.
        invocation_id: The turn, if it has begun.
    """

    def __init__(
        self,
        what: str,
        *,
        reason: str = "",
        source: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
    ) -> None:
        super().__init__(f"{what}: {reason}" if reason else what)
        self.reason = reason
        self.source = source
        self.session_id = session_id
        self.invocation_id = invocation_id


class ClientClosedError(IntermissionError):
    """The client is closed. Nothing was asked and nothing was stored; make a new client."""

    def __init__(self) -> None:
        super().__init__("the client is closed: nothing was asked, and nothing was stored. Make a new one.")


class ListenerError(IntermissionError):
    """The listener of a stream failed in a way that no listener may: see the `__cause__`.

    It raised what is no `Exception`, such as a `SystemExit`. Its turn was cancelled, and it was called no
    more.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"the listener failed fatally ({type(error).__name__}), and is called no more; its turn was "
            "cancelled. What was stored before is kept."
        )
        self.__cause__ = error


class ValidationError(IntermissionError, ValueError):
    """The call has an argument that it cannot have. No thread was started, and nothing was stored."""


class LlmError(IntermissionError):
    """What reading the value of a failed result raises; `error`, its cause, is what failed the call.

    Attributes:
        error: What failed it.
        kind: What kind of trouble that is.
        recoverable: Whether the same call may well succeed later.
        retry_after: Seconds that the service asks to wait, if it said so.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the call failed: {text_of(error)}")
        self.error = error
        self.kind = kind_of(error)
        self.recoverable = is_recoverable(error)
        self.retry_after = retry_after_of(error)


_CANCELLATIONS: Final = (
    Cancelled,
    CancelledError,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
)
"""They are unrelated: two are a `BaseException`, the others an `Exception`."""


def is_cancellation(error: BaseException) -> bool:
    """Return whether an error says that something was cancelled, or was raised from one that does."""
    return any(
        isinstance(link, _CANCELLATIONS)
        or (isinstance(link, ModelError) and link.kind is ModelErrorKind.CANCELLED)
        for link in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


_KINDS: Final[dict[type[BaseException], ModelErrorKind]] = {
    CancelledError: ModelErrorKind.CANCELLED,
    errors.UnrequestedCancelError: ModelErrorKind.CANCELLED,
    errors.RunTimeoutError: ModelErrorKind.TIMEOUT,
    AskTimeoutError: ModelErrorKind.TIMEOUT,
    TimeoutError: ModelErrorKind.TIMEOUT,
    ConnectionError: ModelErrorKind.NETWORK,
    errors.OverloadedError: ModelErrorKind.SERVICE,
    errors.SessionBusyError: ModelErrorKind.SERVICE,
    CallGivenUpError: ModelErrorKind.SERVICE,
    ConflictError: ModelErrorKind.SERVICE,
    # What the caller gave.
    ValidationError: ModelErrorKind.VALIDATION,
    errors.AlreadyConsumedError: ModelErrorKind.VALIDATION,
    errors.AmbiguousResumeError: ModelErrorKind.VALIDATION,
    errors.InvalidAnswerError: ModelErrorKind.VALIDATION,
    errors.MissingCallIdError: ModelErrorKind.VALIDATION,
    errors.NothingToResumeError: ModelErrorKind.VALIDATION,
    errors.SessionExistsError: ModelErrorKind.VALIDATION,
    errors.SessionNotFoundError: ModelErrorKind.VALIDATION,
    errors.UnknownCallError: ModelErrorKind.VALIDATION,
    AskCycleError: ModelErrorKind.VALIDATION,
    ReentrantRunError: ModelErrorKind.VALIDATION,
    # How the program is put together.
    errors.AgentDepthError: ModelErrorKind.CONFIGURATION,
    errors.AgentNotFoundError: ModelErrorKind.CONFIGURATION,
    errors.AgentTreeChangedError: ModelErrorKind.CONFIGURATION,
    errors.HookResultError: ModelErrorKind.CONFIGURATION,
    errors.InstructionError: ModelErrorKind.CONFIGURATION,
    errors.NotResumableError: ModelErrorKind.CONFIGURATION,
    ReadOnlyContextError: ModelErrorKind.CONFIGURATION,
    UnguardedScriptError: ModelErrorKind.CONFIGURATION,
    UnknownToolError: ModelErrorKind.CONFIGURATION,
    # The rest is of no kind that a caller could do something about.
    ActorDeadError: ModelErrorKind.OTHER,
    ClientClosedError: ModelErrorKind.OTHER,
    ListenerError: ModelErrorKind.OTHER,
    errors.LlmCallsLimitExceededError: ModelErrorKind.OTHER,
    errors.RecoveryLimitError: ModelErrorKind.OTHER,
    errors.RunInterruptedError: ModelErrorKind.OTHER,
    errors.SessionClosedError: ModelErrorKind.OTHER,
    errors.ToolFailedError: ModelErrorKind.OTHER,
    StorageError: ModelErrorKind.OTHER,
    SystemClosedError: ModelErrorKind.OTHER,
    SystemForkedError: ModelErrorKind.OTHER,
    ToolArgumentError: ModelErrorKind.OTHER,
    ToolProcessError: ModelErrorKind.OTHER,
    ToolRaisedError: ModelErrorKind.OTHER,
    ToolResultError: ModelErrorKind.OTHER,
}

_RECOVERABLE: Final = frozenset(
    {
        ModelErrorKind.RATE_LIMIT,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.NETWORK,
        ModelErrorKind.SERVICE,
    }
)


def kind_of(error: BaseException) -> ModelErrorKind:
    """Return what kind of trouble an error is; `OTHER` for one that is nobody's of this library."""
    if isinstance(error, ModelError | LlmError):
        return error.kind
    return next((_KINDS[base] for base in type(error).__mro__ if base in _KINDS), ModelErrorKind.OTHER)


def is_recoverable(error: BaseException) -> bool:
    """Return whether what failed with this error may well succeed later, with nothing changed."""
    return kind_of(error) in _RECOVERABLE


def retry_after_of(error: BaseException) -> float | None:
    """Return the seconds that the service asks to wait before another try, if it said so."""
    return error.retry_after if isinstance(error, ModelError | LlmError) else None
