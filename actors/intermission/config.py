"""`RunConfig`: how one run behaves."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["OnConsumerLost", "OnToolFailure", "Residual", "ResumabilityConfig", "RunConfig", "ToolExecution"]


class ToolExecution(StrEnum):
    """How the calls of one turn run. Their responses stand in call order in every mode."""

    SEQUENTIAL = "sequential"
    """One after another."""
    PARALLEL = "parallel"
    """Async tools overlap; blocking ones run one after another."""
    PARALLEL_SUBSCRIBE = "parallel_subscribe"
    """All overlap."""
    NONE = "parallel"
    """The default, as ADK names it: `PARALLEL`."""


class OnConsumerLost(StrEnum):
    """What becomes of a run whose consumer is gone."""

    CANCEL = "cancel"
    DETACH = "detach"


class OnToolFailure(StrEnum):
    """What becomes of the calls under way when another of their turn fails the run."""

    CANCEL_SIBLINGS = "cancel_siblings"
    AWAIT_SIBLINGS = "await_siblings"


class Residual(StrEnum):
    """Whether the session's next run waits for work that outlived the run before."""

    RELEASE = "release"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class ResumabilityConfig:
    """Whether the runs of an app can be gone on with.

    Attributes:
        is_resumable: Its runs keep checkpoints, pause where a call waits for an answer, and can be gone on
            with, at least once: what a tool does must bear being done again under the same call id.
        plain_text_continuation_auto_resume: For clients of older ADK versions: no checkpoints; a run pauses,
            and an answer in a message goes to the agent that asked, as a new run.

    Raises:
        ValueError: Both are true.
    """

    is_resumable: bool = False
    plain_text_continuation_auto_resume: bool = False

    def __post_init__(self) -> None:
        if self.is_resumable and self.plain_text_continuation_auto_resume:
            raise ValueError(
                "is_resumable and plain_text_continuation_auto_resume exclude each other: give one of them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run.

    Attributes:
        max_llm_calls: How many model calls the run may make; zero or less means no limit. The call after
            the last allowed one fails the run with `LlmCallsLimitExceededError`.
        streaming: Ask models to stream, and show their text piece by piece as partial events.
        tool_execution: How the tool calls of one turn run.
        timeout: Seconds from the start to the end of the run, the wait behind other runs included; then it
            ends `expired`. `None` for no limit.
        tool_timeout: Seconds that one tool call may take; then the model is told that its outcome is
            unknown, and the run goes on without it. `None` for no limit. A tool's own `timeout` goes before.
        on_tool_failure: Whether the calls under way are given up or waited for when another one of their
            turn fails the run. Those that have not begun do not begin in either case.
        on_consumer_lost: Whether a run that nobody `start()`ed is cancelled when its consumer is gone.
        overlap_model_calls: Let a model call, and nothing else, run while the events before it are being
            stored. What it says is shown only when they are.
        residual: Whether the session's next run begins at once when the run has ended, or waits for what the
            run has left behind, at most `grace`.
        grace: Seconds that what the run has left behind is still asked to end.

    Raises:
        ValueError: A time limit is not above zero, the grace is negative, or the value of an option is
            unknown.
    """

    max_llm_calls: int = 500
    streaming: bool = False
    tool_execution: ToolExecution = ToolExecution.PARALLEL
    timeout: float | None = None
    tool_timeout: float | None = None
    on_tool_failure: OnToolFailure | str = OnToolFailure.CANCEL_SIBLINGS
    on_consumer_lost: OnConsumerLost | str = OnConsumerLost.CANCEL
    overlap_model_calls: bool = False
    residual: Residual | str = Residual.RELEASE
    grace: float = 5.0

    def __post_init__(self) -> None:
        for name in ("timeout", "tool_timeout"):
            seconds: float | None = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is {seconds}: give seconds above 0, or None for no limit")
        if not self.grace >= 0:
            raise ValueError(f"grace is {self.grace}: give seconds, at least 0")
        object.__setattr__(self, "residual", Residual(self.residual))
        object.__setattr__(self, "on_consumer_lost", OnConsumerLost(self.on_consumer_lost))
        object.__setattr__(self, "on_tool_failure", OnToolFailure(self.on_tool_failure))
        object.__setattr__(self, "tool_execution", ToolExecution(self.tool_execution))
