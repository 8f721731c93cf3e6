"""Intermission: an embedded actor runtime for LLM-agent sessions.

A module imports only from the rows below its own:

    cli  __main__              the command line
    tool_child                 the program of a child that runs tools
    testing                    what tests of agents need: scripted models, gates, a model server
    client/                    blocking clients, whose failures are values; not imported with this package
    agent_tool                 agents as tools of others, by runners inside runs
    runner                     the caller's way in
    plugins/                   what looks at every run
    sessions/                  the actor of a session, its only writer; finding, following, shared state
    runs/                      the handle on a run, and the actor that drives it
    agents/                    agents as generators of effects: no thread, no I/O
    tools/  models/            what an agent uses: plain objects
    messages                   what actors say to each other
    isolation/                 function calls in child processes
    blocking/                  waits that a cancel ends
    processes/                 groups of child processes, their ends and their pipes
    kernel/                    what actors stand on
    events                     what is stored
    state  pending             what it changes; calls that wait for an answer
    content  config  keys  errors      values: frozen dataclasses
    ---------------------------------------------------------------------
    intermission_storage       the event log; it knows none of the above
"""

import logging

from intermission.agent_tool import AgentTool
from intermission.agents import (
    AgentContext,
    App,
    BaseAgent,
    CallbackContext,
    EventsCompactionConfig,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    exit_loop,
    transfer_to_agent,
)
from intermission.config import (
    OnConsumerLost,
    OnToolFailure,
    Residual,
    ResumabilityConfig,
    RunConfig,
    ToolExecution,
)
from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import (
    AgentDepthError,
    AgentNotFoundError,
    AgentTreeChangedError,
    AlreadyConsumedError,
    AmbiguousResumeError,
    HookResultError,
    InstructionError,
    IntermissionError,
    InvalidAnswerError,
    LlmCallsLimitExceededError,
    MissingCallIdError,
    ModelError,
    ModelErrorKind,
    NothingToResumeError,
    NotResumableError,
    OverloadedError,
    RecoveryLimitError,
    RunInterruptedError,
    RunTimeoutError,
    SessionBusyError,
    SessionClosedError,
    SessionExistsError,
    SessionNotFoundError,
    ToolFailedError,
    UnknownCallError,
    UnrequestedCancelError,
)
from intermission.events import Event, EventActions, Usage
from intermission.isolation.errors import (
    ReadOnlyContextError,
    ToolProcessError,
    ToolRaisedError,
    UnguardedScriptError,
)
from intermission.kernel.actor import Actor
from intermission.kernel.ref import ActorDeadError, ActorRef, AskTimeoutError
from intermission.kernel.scope import Cancelled, CancelScope, Force
from intermission.kernel.supervision import Supervision, Terminated
from intermission.kernel.system import ActorSystem
from intermission.kernel.waits import ReentrantRunError
from intermission.messages import PoisonPill, StartRun, Stop
from intermission.pending import Answer, Confirmation, PendingCall, PendingKind
from intermission.plugins import Plugin
from intermission.runner import Runner
from intermission.runs.messages import EventStored, RunEnded, RunStarted
from intermission.runs.receipt import (
    CancelOutcome,
    CancelReceipt,
    CancelReport,
    ResidualOutcome,
    ResidualWork,
)
from intermission.runs.result import CancelSource, RunResult, RunStatus
from intermission.runs.run import Run
from intermission.runs.work import Escalation
from intermission.sessions.catalog import SessionEntry, SessionInfo, Sessions
from intermission.sessions.handle import Session
from intermission.sessions.resuming_runs import Recovered, RecoveryReport
from intermission.sessions.run_records import RunRecord
from intermission.sessions.system import SessionSystem
from intermission.state import State
from intermission.tools import FunctionTool, LongRunningFunctionTool, ToolContext, tool
from intermission.version import __version__

# The library logs under this name and leaves it to the program whether anybody listens.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Actor",
    "ActorDeadError",
    "ActorRef",
    "ActorSystem",
    "AgentContext",
    "AgentDepthError",
    "AgentNotFoundError",
    "AgentTool",
    "AgentTreeChangedError",
    "AlreadyConsumedError",
    "AmbiguousResumeError",
    "Answer",
    "App",
    "AskTimeoutError",
    "BaseAgent",
    "Blob",
    "CallbackContext",
    "CancelOutcome",
    "CancelReceipt",
    "CancelReport",
    "CancelScope",
    "CancelSource",
    "Cancelled",
    "Confirmation",
    "Content",
    "Escalation",
    "Event",
    "EventActions",
    "EventStored",
    "EventsCompactionConfig",
    "Force",
    "FunctionCall",
    "FunctionResponse",
    "FunctionTool",
    "HookResultError",
    "InstructionError",
    "IntermissionError",
    "InvalidAnswerError",
    "LlmAgent",
    "LlmCallsLimitExceededError",
    "LongRunningFunctionTool",
    "LoopAgent",
    "MissingCallIdError",
    "ModelError",
    "ModelErrorKind",
    "NotResumableError",
    "NothingToResumeError",
    "OnConsumerLost",
    "OnToolFailure",
    "OverloadedError",
    "ParallelAgent",
    "Part",
    "PendingCall",
    "PendingKind",
    "Plugin",
    "PoisonPill",
    "ReadOnlyContextError",
    "Recovered",
    "RecoveryLimitError",
    "RecoveryReport",
    "ReentrantRunError",
    "Residual",
    "ResidualOutcome",
    "ResidualWork",
    "ResumabilityConfig",
    "Run",
    "RunConfig",
    "RunEnded",
    "RunInterruptedError",
    "RunRecord",
    "RunResult",
    "RunStarted",
    "RunStatus",
    "RunTimeoutError",
    "Runner",
    "SequentialAgent",
    "Session",
    "SessionBusyError",
    "SessionClosedError",
    "SessionEntry",
    "SessionExistsError",
    "SessionInfo",
    "SessionNotFoundError",
    "SessionSystem",
    "Sessions",
    "StartRun",
    "State",
    "Stop",
    "Supervision",
    "Terminated",
    "ToolContext",
    "ToolExecution",
    "ToolFailedError",
    "ToolProcessError",
    "ToolRaisedError",
    "UnguardedScriptError",
    "UnknownCallError",
    "UnrequestedCancelError",
    "Usage",
    "__version__",
    "exit_loop",
    "tool",
    "transfer_to_agent",
]
