"""Blocking clients, which any number of threads may share, and whose failures are values.

llm.py       LlmClient: asks a model
submitted.py SubmittedCall: a call of it on another thread
asking.py    what is asked, and what comes of it
agent.py     AgentClient: runs the turns of an agent
turns.py     one turn: starting it, waiting for it, what it comes to
stream.py    AgentStream: a turn whose events a listener gets
result.py    LlmResult: a value or an error
arguments.py what the calls are given
errors.py    the errors, and what kind each one is of
waits.py     waits that a scope ends
"""

from intermission.client.agent import USER, AgentClient
from intermission.client.errors import (
    CancelledError,
    ClientClosedError,
    ListenerError,
    LlmError,
    ValidationError,
)
from intermission.client.llm import LlmClient
from intermission.client.result import LlmResult
from intermission.client.stream import AgentStream, Listener
from intermission.client.submitted import SubmittedCall
from intermission.client.turns import OnCallerCancel, TurnResult

__all__ = [
    "USER",
    "AgentClient",
    "AgentStream",
    "CancelledError",
    "ClientClosedError",
    "Listener",
    "ListenerError",
    "LlmClient",
    "LlmError",
    "LlmResult",
    "OnCallerCancel",
    "SubmittedCall",
    "TurnResult",
    "ValidationError",
]
