"""The effects that an agent yields: it says what is to be done, the run's driver does it.

An agent's generator has no thread and does no I/O, so it can be tested with plain lists. The helpers are
for `yield from`: they give each effect's answer its type.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from intermission.content import FunctionCall, FunctionResponse
from intermission.events import Event
from intermission.models.base import Model, ModelRequest, ModelResponse
from intermission.tools.base import Tool

__all__ = [
    "CallModel",
    "CallTools",
    "Effect",
    "Emit",
    "Generated",
    "Steps",
    "call_model",
    "call_tools",
    "emit",
]


@dataclass(frozen=True, slots=True)
class Emit:
    """Show `event`; one that is not partial is stored first. The answer is the event, with its number."""

    event: Event


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask `model`; its partial responses are shown as the author's. The answer is `Generated`."""

    model: Model
    request: ModelRequest
    author: str


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run the calls with `tools`, by name. The answer is a response for each call, in their order."""

    calls: Sequence[FunctionCall]
    tools: Mapping[str, Tool]


@dataclass(frozen=True, slots=True)
class Generated:
    """A model's whole response, and how many characters of its text partials have shown."""

    response: ModelResponse
    shown: int


Effect: TypeAlias = Event | Emit | CallModel | CallTools
"""What an agent may yield; a plain `Event` means `Emit(event)`."""

Steps: TypeAlias = Generator[Effect, Any, None]
"""What `BaseAgent.run` returns."""


def emit(event: Event) -> Generator[Effect, Any, Event]:
    """Show an event, and return it as it was stored."""
    return cast(Event, (yield Emit(event)))


def call_model(model: Model, request: ModelRequest, author: str) -> Generator[Effect, Any, Generated]:
    """Ask a model, and return its whole response.

    Raises:
        ModelError: The call failed.
        LlmCallsLimitExceededError: The run has used up its model calls.
    """
    return cast(Generated, (yield CallModel(model, request, author)))


def call_tools(
    calls: Sequence[FunctionCall], tools: Mapping[str, Tool]
) -> Generator[Effect, Any, tuple[FunctionResponse, ...]]:
    """Run tools, and return a response for each call, in order. A tool's failure is a response too."""
    return cast("tuple[FunctionResponse, ...]", (yield CallTools(calls, tools)))
