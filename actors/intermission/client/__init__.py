"""Blocking clients, which any number of threads may share, and whose failures are values.

llm.py       LlmClient: asks a model
submitted.py SubmittedCall: a call of it on another thread
asking.py    what is asked, and what comes of it
result.py    LlmResult: a value or an error
errors.py    the errors, and what kind each one is of
waits.py     waits that a scope ends
"""

from intermission.client.errors import (
    CancelledError,
    ClientClosedError,
    ListenerError,
    LlmError,
    ValidationError,
)
from intermission.client.llm import LlmClient
from intermission.client.result import LlmResult
from intermission.client.submitted import SubmittedCall

__all__ = [
    "CancelledError",
    "ClientClosedError",
    "ListenerError",
    "LlmClient",
    "LlmError",
    "LlmResult",
    "SubmittedCall",
    "ValidationError",
]
