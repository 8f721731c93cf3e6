"""An app whose runs can be held at each of their steps, for tests that play whole processes in one.

A `Stage` is what one process has in memory; what happens in the world is in the `World`, which outlives it.
No model has a memory: each knows from its instruction in which run it is, and from the conversation what it
has called there.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from apps import APP
from intermission import (
    AgentContext,
    App,
    Content,
    Event,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    ParallelAgent,
    Plugin,
    ResumabilityConfig,
    Run,
    RunRecord,
    RunResult,
    SequentialAgent,
    ToolContext,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, contents_problems

__all__ = ["AGENTS", "ASKS", "FLIGHT", "KINDS", "PATIENCE", "Flight", "Stage", "World"]

PATIENCE = 30.0

AGENTS = {
    "planner": ("reserve", "charge"),
    "hotels": ("hotel",),
    "trains": ("train",),
    "sender": ("send", "bill", "survey"),
}
"""The agents in their order, `hotels` beside `trains`, each with its tools."""

ASKS = ("send", "bill")
"""The tools that need leave; `survey` begins what others end."""

KINDS = {
    "book": (*AGENTS["planner"], "hotel", "train", *AGENTS["sender"]),
    "look": ("reserve", "charge", "train"),
    "ask": AGENTS["sender"],
}
"""The kinds of messages, and the tools that are called in a run that completes."""


class Died(Exception):
    """The process is dead: what stood in it does nothing any more."""


class World:
    """What happens outside of all processes, and is not undone when one dies.

    Attributes:
        done: How often each call has had its effect, by its id.
        shown: Ids of the events that were shown and are not partial.
        told: The runs whose end plugins were told.
        problems: What was wrong with conversations that models were sent.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.shown: list[str] = []
        self.told: set[str] = set()
        self.problems: list[str] = []

    def show(self, event: Event) -> None:
        """Somebody sees an event."""
        if not event.partial:
            with self.lock:
                self.shown.append(event.id)


class Flight:
    """A run of a stage, which is held where the test wants it.

    Attributes:
        point: At which point from now on it is to be held, counted from 1; 0 for nowhere.
        held: Where it is held.
    """

    def __init__(self, stage: "Stage", point: int = 0) -> None:
        self.stage = stage
        self.point = point
        self.held: str | None = None
        self._gate = Gate()

    def reach(self, name: str) -> None:
        """Come to a point, and stay there if the flight is to be held at it."""
        with self.stage.changed:
            self.point -= 1
            if self.point or self.stage.open:
                return
            self.held, gate = name, self._gate
            self.stage.changed.notify_all()
        gate.wait(4 * PATIENCE)

    def release(self, point: int = 0) -> None:
        """Let it go on, to a point from there or to its end."""
        with self.stage.changed:
            self.held, self.point = None, point
            gate, self._gate = self._gate, Gate()
        gate.open()


FLIGHT: ContextVar[Flight] = ContextVar("flight")
"""The flight whose code this is; whoever makes a run sets it."""


class Stage:
    """One process: its app, and where its runs are held.

    Attributes:
        changed: Notified when a flight is held.
        open: Whether nobody is held any more.
        dead: Whether nothing has an effect any more.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.changed = threading.Condition()
        self.open = False
        self.dead = False
        agents = {name: self._agent(name) for name in AGENTS}
        offers = ParallelAgent("offers", sub_agents=[agents["hotels"], agents["trains"]])
        root = SequentialAgent("desk", sub_agents=[agents["planner"], offers, agents["sender"]])
        resumable = ResumabilityConfig(is_resumable=True)
        self.app = App(APP, root, plugins=[_Told(self)], resumability_config=resumable)

    def reach(self, name: str) -> None:
        """Come to a point of the flight that this is called in.

        Raises:
            Died: The process is dead.
        """
        FLIGHT.get().reach(name)
        if self.dead:
            raise Died

    def wake(self) -> None:
        """Have those look who wait for something to change."""
        with self.changed:
            self.changed.notify_all()

    def wait_for(self, happens: Callable[[], bool], what: str) -> None:
        """Wait until something is so, which a change of this stage brings."""
        with self.changed:
            assert self.changed.wait_for(happens, PATIENCE), f"it took too long until {what}"

    def _agent(self, name: str) -> LlmAgent:
        tools = [_tool(tool) for tool in AGENTS[name]]
        return LlmAgent(name, _Clerk(self, name), instruction=_what_run, tools=tools)


@cache
def _tool(name: str) -> FunctionTool:
    """Return a tool, the same one for all stages: what makes it dear is its schema."""

    def act(invocation: str, tool_context: ToolContext) -> dict[str, Any] | None:
        """Act."""
        stage = FLIGHT.get().stage
        stage.reach(f"before {name}")
        with stage.world.lock:
            stage.world.done[tool_context.function_call_id] += 1
        stage.reach(f"after {name}")
        return None if name == "survey" else {"acted": name, "for": invocation}

    act.__name__ = name
    if name == "survey":
        return LongRunningFunctionTool(act)
    return FunctionTool(act, require_confirmation=name in ASKS)


class _Clerk:
    """The model of an agent: it calls all tools that the message wants of it, and says that it is done."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self._stage = stage

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        problems = contents_problems(request.contents)
        with self._stage.world.lock:
            self._stage.world.problems += problems
        invocation, kind = request.instruction.split()[:2]
        wanted = [tool for tool in AGENTS[self.name] if tool in KINDS[kind]]
        made = [call for content in request.contents for call in content.function_calls]
        if any(call.args.get("invocation") == invocation and call.name in wanted for call in made):
            self._stage.reach(f"{self.name} is told")
            wanted = []
        else:
            self._stage.reach(f"{self.name} is asked")
        calls = [FunctionCall("", tool, {"invocation": invocation}) for tool in wanted]
        yield ModelResponse(content=Content.model("" if calls else f"{self.name} is done", calls=calls))


class _Told(Plugin):
    """Keeps which ends it was told of, as long as its process lives."""

    def __init__(self, stage: Stage) -> None:
        super().__init__("told")
        self._stage = stage

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """See `Plugin`."""
        if not self._stage.dead and run.invocation_id is not None:
            with self._stage.world.lock:
                self._stage.world.told.add(run.invocation_id)


def _what_run(context: AgentContext) -> str:
    """Tell a model in which run it is, and of which kind the run's message was."""
    mine = (event for event in context.events if event.invocation_id == context.invocation_id)
    first = next(event for event in mine if event.author == "user")
    return f"{context.invocation_id} {first.text}"
