"""Every error that the runtime raises. Each says what happened, what was kept and what to do.

    IntermissionError
    ├── AgentDepthError              agents run one another without an end
    ├── AgentNotFoundError           an agent was to hand over to one that its tree does not have
    ├── AlreadyConsumedError         the run's events have a consumer already
    ├── HookResultError              a callback or a plugin's hook returned what it must not
    ├── InstructionError             an instruction needs a key that the state does not have
    ├── LlmCallsLimitExceededError   the run asked the model more often than its limit
    ├── ModelError                   a model call failed; `kind` says how
    ├── OverloadedError              too many runs wait, or no worker was free in time
    ├── ReadOnlyContextError         a tool in a process of its own was to change what it can only read
    ├── RunInterruptedError          the run ended without an outcome of its own
    ├── RunTimeoutError              the run took longer than its timeout
    ├── SessionBusyError             another process or runner has the session
    ├── SessionClosedError           the session or its runner closed before the run began
    ├── SessionExistsError           a session of that key exists already
    ├── SessionNotFoundError         the log holds no such session
    ├── ToolFailedError              an async tool failed, and no hook answered for it
    ├── ToolProcessError             the process of a tool gave no answer
    ├── ToolRaisedError              a tool raised in its process
    └── UnguardedScriptError         a script does its work when it is only loaded to find a tool

Errors of the event log are `intermission_storage.StorageError` and its kin.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Self

from intermission_storage import Owner

__all__ = [
    "AgentDepthError",
    "AgentNotFoundError",
    "AlreadyConsumedError",
    "HookResultError",
    "InstructionError",
    "IntermissionError",
    "LlmCallsLimitExceededError",
    "ModelError",
    "ModelErrorKind",
    "OverloadedError",
    "ReadOnlyContextError",
    "RunInterruptedError",
    "RunTimeoutError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionExistsError",
    "SessionNotFoundError",
    "ToolFailedError",
    "ToolProcessError",
    "ToolRaisedError",
    "UnguardedScriptError",
]


class IntermissionError(Exception):
    """Root of the runtime's errors."""


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


class AlreadyConsumedError(IntermissionError):
    """A run has one stream of events, and somebody iterates it already. The run is not touched."""


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


class OverloadedError(IntermissionError):
    """Too many runs wait in one session, or no worker got free in time. What was stored before is kept."""


class ReadOnlyContextError(IntermissionError, TypeError):
    """A tool with `isolation="process"` was to change what it can only read. Nothing was changed.

    Return the value, and let a callback after the call, or a tool with `isolation="thread"`, do the rest.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be changed by a tool with isolation='process', which has only a copy. Nothing "
            "was changed; return the value, and let a callback after the call, or a tool with "
            "isolation='thread', do the rest."
        )


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


class ToolProcessError(IntermissionError):
    """The process of a tool with `isolation="process"` gave no answer: it was not started, or died.

    The model is told that the tool failed, and the run goes on.

    Attributes:
        begun: Whether the tool may have had its effect.
    """

    def __init__(self, message: str, *, begun: bool) -> None:
        super().__init__(message)
        self.begun = begun

    @classmethod
    def not_begun(cls, why: str) -> Self:
        """The tool was not called."""
        return cls(f"the tool was not called in a process of its own: {why}. Nothing was begun.", begun=False)

    @classmethod
    def died(cls, tool: str, how: str) -> Self:
        """The process ended before it had answered."""
        return cls(
            f"the process of tool {tool!r} {how} before it had answered. The call may or may not have "
            "had its effect.",
            begun=True,
        )


class ToolRaisedError(IntermissionError):
    """A tool with `isolation="process"` raised. The log has the traceback; the model is told that it failed.

    Attributes:
        tool: The tool's name.
        kind: The name of what it raised, with its module unless that is `builtins`.
        message: The text of that.
        traceback: As the child would print it.
    """

    def __init__(self, tool: str, pid: int, kind: str, message: str, traceback: str) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.tool = tool
        self.kind = kind
        self.message = message
        self.traceback = traceback
        self.add_note(f"In process {pid} of tool {tool!r}:\n{traceback.rstrip()}")


class UnguardedScriptError(IntermissionError):
    """A process loads a script to find a tool in it, and the script starts a run. Nothing was begun.

    Attributes:
        script: What was loaded.
    """

    def __init__(self, script: str) -> None:
        super().__init__(
            f"{script} starts a run when it is only loaded, to find a tool in it. Nothing was begun. Put "
            "what it does when it is run under `if __name__ == '__main__':`, or move the tool into a module "
            "of its own."
        )
        self.script = script
