"""Every error that the runtime raises. Each says what happened, what was kept and what to do.

    IntermissionError
    ├── AgentDepthError              agents run one another without an end
    ├── AgentNotFoundError           an agent was to hand over to one that its tree does not have
    ├── AgentTreeChangedError        what a run is to go on with is not in the app any more
    ├── AlreadyConsumedError         the run's events have a consumer already
    ├── AmbiguousResumeError         what is to be gone on with is not one invocation
    ├── HookResultError              a callback or a plugin's hook returned what it must not
    ├── InstructionError             an instruction needs a key that the state does not have
    ├── InvalidAnswerError           an answer does not say what its call waits for
    ├── LlmCallsLimitExceededError   the run asked the model more often than its limit
    ├── MissingCallIdError           an answer does not say to which call
    ├── ModelError                   a model call failed; `kind` says how
    ├── NotResumableError            the app does not keep what is needed to go on with a run
    ├── NothingToResumeError         the session knows no such invocation
    ├── OverloadedError              too many runs wait, or no worker was free in time
    ├── RecoveryLimitError           a run's process has died in it too often
    ├── RunInterruptedError          the run ended without an outcome of its own
    ├── RunTimeoutError              the run took longer than its timeout
    ├── SessionBusyError             another process or runner has the session
    ├── SessionClosedError           the session or its runner closed before the run began
    ├── SessionExistsError           a session of that key exists already
    ├── SessionNotFoundError         the log holds no such session
    ├── ToolFailedError              an async tool failed, and no hook answered for it
    ├── UnknownCallError             an answer is to a call that nobody in the session waits for
    └── UnrequestedCancelError       code of yours was cancelled, and not by its run

Those of tools in processes are in `isolation.errors`; errors of the event log are
`intermission_storage.StorageError` and its kin.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from intermission_storage import Owner

__all__ = [
    "AgentDepthError",
    "AgentNotFoundError",
    "AgentTreeChangedError",
    "AlreadyConsumedError",
    "AmbiguousResumeError",
    "HookResultError",
    "InstructionError",
    "IntermissionError",
    "InvalidAnswerError",
    "LlmCallsLimitExceededError",
    "MissingCallIdError",
    "ModelError",
    "ModelErrorKind",
    "NotResumableError",
    "NothingToResumeError",
    "OverloadedError",
    "RecoveryLimitError",
    "RunInterruptedError",
    "RunTimeoutError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionExistsError",
    "SessionNotFoundError",
    "ToolFailedError",
    "UnknownCallError",
    "UnrequestedCancelError",
]


class IntermissionError(Exception):
    """Root of the runtime's errors. They can be pickled, as pools of processes do, without their causes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # That of exceptions calls the class with the text, which is not what it is made of.
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type["IntermissionError"], args: tuple[Any, ...]) -> "IntermissionError":
    return kind.__new__(kind, *args)


class AgentDepthError(IntermissionError):
    """Agents run one another inside each other, deeper than any tree of agents: one of them runs itself.

    What was stored before is kept. Let an agent end before another takes over, or repeat it in a loop.

    Attributes:
        agents: The names of the agents, from the outermost to the one that was not run any more.
    """

    def __init__(self, agents: Sequence[str]) -> None:
        names = " > ".join(agents if len(agents) <= 8 else [*agents[:3], "...", *agents[-4:]])
        super().__init__(
            f"agents run one another {len(agents)} deep ({names}), so the last one was not run: look for an "
            "agent that runs itself. What was stored before is kept."
        )
        self.agents = tuple(agents)


class AgentNotFoundError(IntermissionError):
    """An agent was to hand over to another that is not in its tree. What was stored before is kept.

    Attributes:
        agent: The agent that was to hand over.
        target: The name that was asked for.
    """

    def __init__(self, agent: str, target: str) -> None:
        super().__init__(
            f"agent {agent!r} was to hand over to {target!r}, but no agent of its tree has that name. "
            "What was stored before is kept; the next message goes on."
        )
        self.agent = agent
        self.target = target


class AgentTreeChangedError(IntermissionError):
    """What a run is to go on with is not in the app any more. Nothing was stored; the session is usable.

    Attributes:
        missing: What there was when the run began: agents, tools, and orders of sub-agents.
    """

    def __init__(self, invocation_id: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"run {invocation_id} cannot be gone on with, for the app has changed since it began: "
            f"{'; '.join(missing)}. Nothing was stored. Bring that back to go on with the run, cancel it, or "
            "send a new message."
        )
        self.missing = tuple(missing)


class AlreadyConsumedError(IntermissionError):
    """A run has one stream of events, and somebody iterates it already. The run is not touched."""


class AmbiguousResumeError(IntermissionError):
    """What is to be gone on with is not one invocation, or one that has its message. Nothing was stored."""


class HookResultError(IntermissionError, TypeError):
    """A callback or a plugin's hook returned what it must not. What was stored before is kept.

    The text has the type of what was returned and not the value, which may be somebody's words.

    Attributes:
        hook: The name of the function.
    """

    def __init__(self, hook: str, answer: object, allowed: str) -> None:
        super().__init__(
            f"{hook} returned an instance of {type(answer).__name__}; it may return None or {allowed}. "
            "What was stored before is kept."
        )
        self.hook = hook


class InstructionError(IntermissionError):
    """An instruction needs a key that the session's state does not have. No model was asked with it.

    Attributes:
        agent: The agent whose instruction it is.
        key: The key.
    """

    def __init__(self, agent: str, key: str) -> None:
        super().__init__(
            f"the instruction of agent {agent!r} needs state[{key!r}], which is not there. Set it before, "
            f"by state_delta or by a tool, or write {{{key}?}} for a key that may be missing. "
            "What was stored before is kept."
        )
        self.agent = agent
        self.key = key


class InvalidAnswerError(IntermissionError, ValueError):
    """An answer does not say what its call waits for. Nothing was stored, and the call still waits."""


class LlmCallsLimitExceededError(IntermissionError):
    """The run would have asked a model more often than `RunConfig.max_llm_calls` allows.

    What was stored before is kept. Raise the limit, or look for a loop between the model and a tool.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the run reached its limit of {limit} model calls (RunConfig.max_llm_calls). "
            "What was stored before is kept."
        )
        self.limit = limit


class MissingCallIdError(IntermissionError, ValueError):
    """An answer does not say to which call. Nothing was stored."""


class ModelErrorKind(StrEnum):
    """What went wrong in a model call."""

    AUTHENTICATION = "authentication"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    NETWORK = "network"
    SERVICE = "service"
    VALIDATION = "validation"
    CONFIGURATION = "configuration"
    CANCELLED = "cancelled"
    """Something within the call was cancelled, and not by the run."""

    OTHER = "other"


class ModelError(IntermissionError):
    """A model call failed; no answer of it is kept.

    Attributes:
        kind: What went wrong.
        status: The HTTP status of the answer, if there was one.
        retryable: Whether the same call may well succeed later.
        retry_after: Seconds that the service asks to wait, if it said so.
        limit: The time limit of the model that has passed, by the name of its keyword, if one has.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        status: int | None = None,
        retry_after: float | None = None,
        limit: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.limit = limit
        self.retryable = kind in {
            ModelErrorKind.RATE_LIMIT,
            ModelErrorKind.TIMEOUT,
            ModelErrorKind.NETWORK,
            ModelErrorKind.SERVICE,
        }


class NotResumableError(IntermissionError):
    """The app does not keep what is needed to go on with a run, or did not when the run began.

    Nothing more was stored than that such a run has failed, if `recover` has found it.
    """

    def __init__(self, app: str, invocation_id: str | None = None) -> None:
        super().__init__(
            f"app {app!r} is not resumable: give it ResumabilityConfig(is_resumable=True) to have its runs "
            "pause, and to go on with them."
            if invocation_id is None
            else f"run {invocation_id} was begun when app {app!r} was not resumable, so it is not known "
            "which of its agents was at work. Send the message again."
        )


class NothingToResumeError(IntermissionError):
    """The session knows no such invocation. Nothing was stored."""


class OverloadedError(IntermissionError):
    """Too many runs wait in one session, or no worker got free in time. What was stored before is kept."""


class RecoveryLimitError(IntermissionError):
    """A run's process has died in it again and again, so it was ended. What was stored before is kept.

    Attributes:
        invocation_id: The run.
        attempts: How often it was gone on with.
    """

    def __init__(self, invocation_id: str, attempts: int) -> None:
        super().__init__(
            f"run {invocation_id} was gone on with {attempts} times, and its process died in it each time, "
            "so it was ended. What was stored before is kept. Look for what kills the process, then "
            "resume(invocation_id=…) goes on with it."
        )
        self.invocation_id = invocation_id
        self.attempts = attempts


class RunTimeoutError(IntermissionError):
    """The run took longer than its `RunConfig.timeout`, and ended `expired`. What was stored is kept."""

    def __init__(self, invocation_id: str | None, timeout: float) -> None:
        super().__init__(
            f"run {invocation_id} took longer than its timeout of {timeout} s and was ended. "
            "What was shown as final is kept."
        )
        self.invocation_id = invocation_id
        self.timeout = timeout


class RunInterruptedError(IntermissionError):
    """The run did not complete, and no error of its own explains it; `status` says how it ended."""

    def __init__(self, invocation_id: str | None, status: str, reason: str) -> None:
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"run {invocation_id} ended {status}{because} and did not complete. "
            "What was shown as final is kept."
        )
        self.invocation_id = invocation_id
        self.status = status


class SessionBusyError(IntermissionError):
    """Another process or runner, which lives, has a run of this session under way. Nothing was stored.

    Attributes:
        owner: Who has it.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__(
            f"the session has a run under way in {owner}. Nothing of this run was stored; "
            "start it again when that one has ended."
        )
        self.owner = owner


class SessionClosedError(IntermissionError):
    """The runner is closed, or the runner or the session was before this run began. Nothing was stored."""


class SessionExistsError(IntermissionError):
    """A session of that key exists already. It was not changed."""

    def __init__(self, app: str, user_id: str, session_id: str) -> None:
        super().__init__(
            f"app {app!r} has a session {session_id!r} of user {user_id!r} already; it was not changed. "
            "Use another id, or delete it first."
        )


class SessionNotFoundError(IntermissionError):
    """The log holds no such session. Check app name, user id and session id: all three make the key."""

    def __init__(self, app: str, user_id: str, session_id: str) -> None:
        super().__init__(
            f"app {app!r} has no session {session_id!r} of user {user_id!r} in this log. "
            "App name, user id and session id together make the key; a session begins with its first run."
        )


class ToolFailedError(IntermissionError):
    """An async tool raised, and no hook on tool errors answered for it. What it raised is the `__cause__`.

    The responses to the other calls of its turn are stored, so the session can go on with the next message.

    Attributes:
        tool: The tool's name.
        call_id: The function call's id.
    """

    def __init__(self, tool: str, call_id: str, error: BaseException) -> None:
        super().__init__(
            f"async tool {tool!r} failed: {type(error).__name__}: {error}. The calls of its turn are "
            "answered, and that is stored. Give an on_tool_error_callback to answer in its place."
        )
        self.tool = tool
        self.call_id = call_id


class UnknownCallError(IntermissionError):
    """An answer is to a call that nobody in the session waits for. Nothing was stored."""


class UnrequestedCancelError(IntermissionError):
    """Code of the user's raised `Cancelled` or `asyncio.CancelledError`, and nobody had cancelled it.

    It came out of a scope, task or future of that code's own, and is the `__cause__`. It fails the run as
    any other error does, and cancels nothing. What was stored before is kept. Catch it where it arises.

    A tool that does so has failed as a tool, and a model with a `ModelError` of the kind `cancelled`.

    Attributes:
        what: What raised it, for people.
    """

    def __init__(self, what: str, error: BaseException) -> None:
        said = f": {error}" if str(error) else ""
        super().__init__(
            f"{what} was cancelled, and not by its run ({type(error).__name__}{said}). It is taken for an "
            "error: nothing is cancelled, and what was stored before is kept."
        )
        self.what = what
        self.__cause__ = error
