"""`RunConfig`: how one run behaves."""

from dataclasses import dataclass

__all__ = ["RunConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run.

    Attributes:
        max_llm_calls: How many model calls the run may make; zero or less means no limit. The call after
            the last allowed one fails the run with `LlmCallsLimitExceededError`.
        streaming: Ask models to stream, and show their text piece by piece as partial events.
    """

    max_llm_calls: int = 500
    streaming: bool = False
