"""`Plugin`: the hooks that a plugin may have."""

from collections.abc import Awaitable
from typing import Any, TypeAlias, TypeVar

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.plugins import unused
from intermission.content import Content
from intermission.events import Event
from intermission.models.base import ModelRequest, ModelResponse
from intermission.runs.receipt import ResidualOutcome, ResidualWork
from intermission.runs.result import RunResult
from intermission.runs.run import Run
from intermission.sessions.run_records import RunRecord
from intermission.tools.base import Tool, ToolContext

__all__ = ["Answer", "Plugin"]

T = TypeVar("T")

Answer: TypeAlias = T | Awaitable[T | None] | None
"""What a hook returns: `None`, which changes nothing, or what takes the place; or either, to be awaited."""


class Plugin:
    """Looks at, and may change, every run of the app that it is given to. Every hook is optional.

    Define the hooks that are needed, as methods or as async methods. All are called with keywords, but for
    `on_run_end` and `on_residual_end`, which get two arguments. Of several plugins the first that returns
    something has the last word; the agent's own callbacks come after all plugins. A method `close()`, plain
    or async, is called when the runner closes.

    Args:
        name: What tells it from the app's other plugins.

    Raises:
        ValueError: The name is empty.
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise ValueError("a plugin needs a name")
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # The run.

    @unused
    def on_user_message_callback(
        self, *, invocation_context: AgentContext, user_message: Content
    ) -> Answer[Content]:
        """A message has come. Content takes its place: in the log, and for everybody."""

    @unused
    def before_run_callback(self, *, invocation_context: AgentContext) -> Answer[Content]:
        """The message is stored. Content is the answer, stored and shown as `"model"`'s: no agent runs."""

    @unused
    def on_event_callback(self, *, invocation_context: AgentContext, event: Event) -> Answer[Event]:
        """An event is stored, or is a partial. An event is shown in its place; the log keeps what it has."""

    @unused
    def after_run_callback(self, *, invocation_context: AgentContext) -> Awaitable[None] | None:
        """The agent has come to its end by itself, or was stopped. What this raises fails the run."""

    @unused
    def on_run_error_callback(
        self, *, invocation_context: AgentContext, error: Exception
    ) -> Awaitable[None] | None:
        """The run has ended with this error. What this raises is logged."""

    @unused
    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> Awaitable[None] | None:
        """A run has ended, whatever its end. Called at least once for every run that has begun.

        It is called again if the process died before it returned: `run` is a `RunRecord` then, whose
        `replayed` is true. What this raises is logged.
        """

    @unused
    def on_residual_end(self, work: ResidualWork, outcome: ResidualOutcome) -> Awaitable[None] | None:
        """Work that its run has gone on or ended without has really ended. What this raises is logged."""

    # Agents.

    @unused
    def before_agent_callback(self, *, agent: BaseAgent, callback_context: AgentContext) -> Answer[Content]:
        """An agent is to run. Content is its answer: it does not run, and no after-agent hook is called."""

    @unused
    def after_agent_callback(self, *, agent: BaseAgent, callback_context: AgentContext) -> Answer[Content]:
        """An agent has run. Content is one more answer of it."""

    # Models.

    @unused
    def before_model_callback(
        self, *, callback_context: AgentContext, llm_request: ModelRequest
    ) -> Answer[ModelResponse | ModelRequest]:
        """A model is to be asked. A response is its answer; a request takes the place of the request."""

    @unused
    def after_model_callback(
        self, *, callback_context: AgentContext, llm_response: ModelResponse
    ) -> Answer[ModelResponse]:
        """A model has answered, in part or in whole. A response takes the place."""

    @unused
    def on_model_error_callback(
        self, *, callback_context: AgentContext, llm_request: ModelRequest, error: Exception
    ) -> Answer[ModelResponse]:
        """A model call has failed. A response takes the error's place."""

    # Tools.

    @unused
    def before_tool_callback(
        self, *, tool: Tool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> Answer[dict[str, Any]]:
        """A tool is to be called. A dict is its result: it is not called."""

    @unused
    def after_tool_callback(
        self, *, tool: Tool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> Answer[dict[str, Any]]:
        """A tool has returned. A dict takes the result's place."""

    @unused
    def on_tool_error_callback(
        self, *, tool: Tool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> Answer[dict[str, Any]]:
        """A tool has raised. A dict is the result, in the error's place."""
