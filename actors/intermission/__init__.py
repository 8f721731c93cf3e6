"""Intermission: an embedded actor runtime for LLM-agent sessions.

A module imports only from the rows below its own:

    cli  __main__              the command line
    testing                    what tests of agents need: scripted models, gates, a model server
    runner                     the caller's way in
    sessions/                  the actor of a session, the only writer of it
    runs/                      the handle on a run, and the actor that drives it
    agents/                    agents as generators of effects: no thread, no I/O
    tools/  models/            what an agent uses: plain objects
    messages                   what actors say to each other
    kernel/                    what actors stand on
    events  content  config  keys  errors      values: frozen dataclasses
    ---------------------------------------------------------------------
    intermission_storage       the event log; it knows none of the above
"""

import logging

from intermission.agents import AgentContext, App, BaseAgent, LlmAgent
from intermission.config import RunConfig
from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import (
    AlreadyConsumedError,
    IntermissionError,
    LlmCallsLimitExceededError,
    ModelError,
    ModelErrorKind,
    RunInterruptedError,
    SessionBusyError,
    SessionClosedError,
    SessionNotFoundError,
)
from intermission.events import Event, EventActions, Usage
from intermission.runner import Runner
from intermission.runs import Run, RunResult, RunStatus
from intermission.tools import FunctionTool, ToolContext
from intermission.version import __version__

# The library logs under this name and leaves it to the program whether anybody listens.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AgentContext",
    "AlreadyConsumedError",
    "App",
    "BaseAgent",
    "Blob",
    "Content",
    "Event",
    "EventActions",
    "FunctionCall",
    "FunctionResponse",
    "FunctionTool",
    "IntermissionError",
    "LlmAgent",
    "LlmCallsLimitExceededError",
    "ModelError",
    "ModelErrorKind",
    "Part",
    "Run",
    "RunConfig",
    "RunInterruptedError",
    "RunResult",
    "RunStatus",
    "Runner",
    "SessionBusyError",
    "SessionClosedError",
    "SessionNotFoundError",
    "ToolContext",
    "Usage",
    "__version__",
]
