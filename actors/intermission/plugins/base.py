"""`Plugin`: the hooks that a plugin may have."""

from collections.abc import Sequence
from typing import Any, ClassVar

__all__ = ["Plugin"]


class Plugin:
    """Looks at, and may change, every run of the app that it is given to. Every hook is optional.

    Define the hooks that are needed, as methods or as async methods. They are called with keywords, those of
    google-adk's plugins; `on_run_end` and `on_residual_end` with two arguments.

    Args:
        name: What tells it from the app's other plugins.

    Raises:
        ValueError: The name is empty.
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise ValueError("a plugin needs a name")
        self.name = name

    _HOOKS: ClassVar[Sequence[str]] = (
        "on_user_message_callback",
        "before_run_callback",
        "on_event_callback",
        "after_run_callback",
        "on_run_error_callback",
        "before_agent_callback",
        "after_agent_callback",
        "before_model_callback",
        "after_model_callback",
        "on_model_error_callback",
        "before_tool_callback",
        "after_tool_callback",
        "on_tool_error_callback",
        "on_run_end",
        "on_residual_end",
    )

    @classmethod
    def hooks(cls) -> Sequence[str]:
        """Return the names of all hooks."""
        return cls._HOOKS

    def on_user_message_callback(self, **arguments: Any) -> Any:
        """Look at `user_message` of `invocation_context`; a `Content` that is returned takes its place."""

    def before_run_callback(self, **arguments: Any) -> Any:
        """Look at `invocation_context`; a `Content` that is returned is the answer, and no agent runs."""

    def on_event_callback(self, **arguments: Any) -> Any:
        """Look at `event`; an `Event` that is returned is shown in its place. The log keeps the agent's."""

    def after_run_callback(self, **arguments: Any) -> Any:
        """Look at `invocation_context` after the agent has come to an end by itself."""

    def on_run_error_callback(self, **arguments: Any) -> Any:
        """Look at the `error` that has ended the run."""

    def before_agent_callback(self, **arguments: Any) -> Any:
        """Look at `agent` and `callback_context`; a `Content` that is returned is the agent's answer."""

    def after_agent_callback(self, **arguments: Any) -> Any:
        """Look at `agent` and `callback_context`; a `Content` that is returned is one more answer."""

    def before_model_callback(self, **arguments: Any) -> Any:
        """Look at `callback_context` and `llm_request`; a `ModelResponse` takes the place of the call."""

    def after_model_callback(self, **arguments: Any) -> Any:
        """Look at `callback_context` and `llm_response`; a `ModelResponse` takes its place."""

    def on_model_error_callback(self, **arguments: Any) -> Any:
        """Look at `callback_context`, `llm_request`, `error`; a `ModelResponse` takes the error's place."""

    def before_tool_callback(self, **arguments: Any) -> Any:
        """Look at `tool`, `tool_args`, `tool_context`; a dict that is returned takes the call's place."""

    def after_tool_callback(self, **arguments: Any) -> Any:
        """Look at `tool`, `tool_args`, `tool_context`, `result`; a dict that is returned takes its place."""

    def on_tool_error_callback(self, **arguments: Any) -> Any:
        """Look at `tool`, `tool_args`, `tool_context`, `error`; a dict takes the error's place."""

    def on_run_end(self, run: Any, result: Any) -> Any:
        """Look at a run that has ended, whatever its end."""

    def on_residual_end(self, work: Any, outcome: Any) -> Any:
        """Look at what has come of work that had outlived its run."""
