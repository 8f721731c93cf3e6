"""The effects that an agent yields: it says what is to be done, the run's strand does it.

An agent's generator has no thread and does no I/O, so it can be tested with plain lists. The helpers are
for `yield from`: they give each effect's answer its type.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, cast

from intermission.agents.callbacks import Callback
from intermission.content import FunctionCall, FunctionResponse
from intermission.events import Event
from intermission.models.base import Model, ModelRequest, ModelResponse
from intermission.tools.base import Tool

__all__ = [
    "Call",
    "CallModel",
    "CallTools",
    "Effect",
    "Emit",
    "Ended",
    "Escalate",
    "Fork",
    "Generated",
    "RunAgent",
    "Runnable",
    "SaveState",
    "Steps",
    "ToolUser",
    "call_model",
    "call_tools",
    "emit",
    "promises",
]


@dataclass(frozen=True, slots=True)
class Emit:
    """Show `event`; one that is not partial is stored first. The answer is the event, with its number.

    Attributes:
        event: What happened.
        last: The agent promises that nothing follows. The root agent's last event is stored together with
            the end of the run.
        starts_calls: The agent promises to yield `CallTools` for the event's calls next. That they begin is
            then stored together with the event.
        calls_model: The agent promises to yield `CallModel` next, and to do nothing before. If the run's
            `overlap_model_calls` allows it, the model is asked while the event is being stored: the answer is
            then the event without its number, and an error of the log is raised at the `yield` of the call.
    """

    event: Event
    last: bool = False
    starts_calls: bool = False
    calls_model: bool = False


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask `model`; its partial responses are shown as the author's. The answer is `Generated`."""

    model: Model
    request: ModelRequest
    author: str


class ToolUser(Protocol):
    """An agent with callbacks on its tool calls, such as `LlmAgent`."""

    name: str
    before_tool_callbacks: tuple[Callback, ...]
    after_tool_callbacks: tuple[Callback, ...]
    on_tool_error_callbacks: tuple[Callback, ...]


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run the calls with `tools`, by name. The answer is a response for each call, in their order.

    A call whose response comes from outside has none. In an app that is resumable the run then pauses, when
    what there is of the turn is stored, and the agent is left; in another it goes on.

    An error that fails the run is raised at the `yield` when the calls are answered and that is stored.

    Attributes:
        calls: The calls.
        tools: The tools that there are.
        agent: Whose callbacks are asked, after the plugins' hooks; without it only those are.
        again: They were begun before: those are left out that have a response, and of those that were made
            the log has it.
    """

    calls: Sequence[FunctionCall]
    tools: Mapping[str, Tool]
    agent: ToolUser | None = None
    again: bool = False


class Runnable(Protocol):
    """An agent, as an effect names it: `BaseAgent`."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    def run(self, context: Any, /) -> "Steps":
        """See `BaseAgent.run`."""
        ...


class Ended(Enum):
    """How agents came to their end that another one has run."""

    ESCALATED = "escalated"
    """One of them asked the enclosing loop to end: it is the answer to an agent that `ends_on_escalation`."""


@dataclass(frozen=True, slots=True)
class RunAgent:
    """Run another agent to its end, on this one's branch. The answer is `None`, or what `Ended` says.

    Where a run is gone on with, an agent that had come to its end is not run again, and one that had begun
    goes on where it was, each once. Who runs an agent more than once keeps its own place in
    `context.agent_state`, or it cannot be told which time that was.

    Attributes:
        agent: The agent.
        part: It is a part of this one, as by `yield from`: the hooks around it are not called.
    """

    agent: Runnable
    part: bool = False


@dataclass(frozen=True, slots=True)
class Escalate:
    """End the innermost agent around this one that ends by that, such as a loop, and leave all below it.

    An event whose actions say `escalate` does the same, when it is stored. The answer is `None`; it comes if
    there is no such agent.
    """


@dataclass(frozen=True, slots=True)
class SaveState:
    """Store the agent's state, with what there is of it in `context.agent_state`. The answer is `None`.

    In an app that is not resumable nothing is stored.

    Attributes:
        state: What the state is from now on; what it is by default.
    """

    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """Run agents at the same time, each on a branch of its own, to the end of all.

    The first error of one ends the others, and is raised here once they have left. The answer is `None`, or
    what `Ended` says. The branches are gone on with as by `RunAgent`.

    Attributes:
        agents: The agents.
        name: What the names of the branches begin with, behind that of the branch that forks.

    Raises:
        TypeError: They are no sequence.
        ValueError: There are none.
    """

    agents: Sequence[Runnable]
    name: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        agents: object = self.agents
        if not isinstance(agents, Sequence) or isinstance(agents, str):  # pyright: ignore[reportUnnecessaryIsInstance] - agents without types
            raise TypeError(f"Fork takes a sequence of agents, not {agents!r}")
        if not agents:
            raise ValueError("Fork has no agents: where there may be none, yield it only if there are some")


@dataclass(frozen=True, slots=True)
class Call:
    """Call a function, plain or async, that may block. The answer is what it returns."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "args", args)


@dataclass(frozen=True, slots=True)
class Generated:
    """A model's whole response, its calls with our ids, and how much of its text partials have shown.

    Attributes:
        response: The response.
        shown: Characters.
    """

    response: ModelResponse
    shown: int


Effect: TypeAlias = Event | Emit | CallModel | CallTools | RunAgent | Fork | Call | SaveState | Escalate
"""What an agent may yield; a plain `Event` means `Emit(event)`."""

Steps: TypeAlias = Generator[Effect, Any, None]
"""What `BaseAgent.run` returns."""


def emit(
    event: Event, *, last: bool = False, starts_calls: bool = False, calls_model: bool = False
) -> Generator[Effect, Any, Event]:
    """Show an event, and return it as it was stored. The flags are those of `Emit`."""
    return cast(Event, (yield Emit(event, last=last, starts_calls=starts_calls, calls_model=calls_model)))


def promises(steps: "GeneratorType[Any, Any, Any]") -> bool:
    """Return whether what a generator has just yielded is its own, and not that of one that it yields from.

    That one knows what it does next; what follows when it has ended, only the outer one knows.
    """
    inner: object = steps.gi_yieldfrom
    return inner is None or getattr(inner, "gi_code", None) is emit.__code__


def call_model(model: Model, request: ModelRequest, author: str) -> Generator[Effect, Any, Generated]:
    """Ask a model, and return its whole response.

    Raises:
        ModelError: The call failed.
        LlmCallsLimitExceededError: The run has used up its model calls.
    """
    return cast(Generated, (yield CallModel(model, request, author)))


def call_tools(
    calls: Sequence[FunctionCall],
    tools: Mapping[str, Tool],
    agent: ToolUser | None = None,
    *,
    again: bool = False,
) -> Generator[Effect, Any, tuple[FunctionResponse, ...]]:
    """Run tools, and return a response for each call, in order. What a tool raises is a response, too.

    See `CallTools` for calls that are answered from outside, and for `again`.

    Raises:
        ToolFailedError: An async tool failed. The calls are answered in an event that is stored.
        Exception: What a hook on the calls raised; likewise.
    """
    return cast("tuple[FunctionResponse, ...]", (yield CallTools(calls, tools, agent, again)))
