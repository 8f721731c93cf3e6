"""A process may die behind each commit: what is gone on with then comes to the same events."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

import pytest

from desk import assert_legal
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    RunStatus,
    SequentialAgent,
    ToolExecution,
    exit_loop,
)
from intermission.agents.effects import Fork, RunAgent, SaveState, Steps
from intermission.models import ModelRequest, ModelResponse
from intermission_storage import Appended, IndexEntry, MemoryEventLog, Record, StorageError
from intermission_storage.log import BatchOptions
from pausing import ASK, WAIT, Story, words

Trees = Callable[[], BaseAgent]
Turn = str | Sequence[str]


class Remembering:
    """A model that says the next of its turns, after what it is told that it has said: a text, or calls."""

    name = "remembering"

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.requests = list[ModelRequest]()

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.requests.append(request)
        said = sum(content.role == "model" for content in request.contents)
        turn = self.turns[min(said, len(self.turns) - 1)]
        if isinstance(turn, str):
            yield ModelResponse(content=Content.model(turn))
            return
        calls = [
            FunctionCall("", name, {"n": n} if name != "exit_loop" else {}) for n, name in enumerate(turn)
        ]
        yield ModelResponse(content=Content.model(calls=[_transfer(call) for call in calls]))


def _transfer(call: FunctionCall) -> FunctionCall:
    if not call.name.startswith("to_"):
        return call
    return FunctionCall("", "transfer_to_agent", {"agent_name": call.name.removeprefix("to_")})


def look(n: int) -> dict[str, int]:
    """Look."""
    return {"seen": n}


TOOLS = [FunctionTool(look), ASK, WAIT, FunctionTool(exit_loop)]


def says(name: str, *turns: Turn, sub_agents: Sequence[BaseAgent] = ()) -> LlmAgent:
    """An agent that says these turns."""
    return LlmAgent(name, Remembering(*turns), tools=TOOLS, sub_agents=sub_agents)


def seq(*agents: BaseAgent, name: str = "seq") -> SequentialAgent:
    return SequentialAgent(name, sub_agents=agents)


class Own(BaseAgent):
    """Runs its agents in turn by each of the ways, and keeps how far it is."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        first, second, *others = self.sub_agents
        if "done" not in context.agent_state:
            yield RunAgent(first)
            yield SaveState({"done": first.name})
        yield from second.run(context)
        yield Fork(others, name=self.name)


TREES: dict[str, Trees] = {
    "one agent": lambda: says("A", ["look", "look"], ["ask", "wait", "look"], "done"),
    "a sequence": lambda: seq(
        says("A", "a"), says("B", ["ask"], "b"), says("C", ["wait", "wait"], "c"), says("D", "d")
    ),
    "sequences inside": lambda: seq(
        seq(says("A", ["wait"], "a"), says("B", "b"), name="inner"), says("C", ["ask"], "c")
    ),
    "a loop": lambda: LoopAgent(
        "loop",
        sub_agents=[
            says("A", ["look"], "one", ["ask"], "two"),
            says("B", "on", ["exit_loop"]),
            says("C", "c"),
        ],
        max_iterations=5,
    ),
    "a loop to its limit": lambda: LoopAgent(
        "loop", sub_agents=[says("A", ["wait"], "1", "2")], max_iterations=2
    ),
    "a loop inside": lambda: seq(
        LoopAgent(
            "loop", sub_agents=[seq(says("A", ["wait", "exit_loop"], "a"), says("B", "b"), name="in_loop")]
        ),
        says("C", "c"),
    ),
    "a transfer": lambda: seq(
        says("A", ["look"], ["to_B"], "never", sub_agents=[says("B", ["wait"], "b")]), says("C", "c")
    ),
    "branches": lambda: seq(
        ParallelAgent(
            "par",
            sub_agents=[
                says("A", ["wait"], "a"),
                says("B", ["ask"], "b"),
                seq(says("C", "c"), says("D", ["wait"], "d"), name="on_branch"),
            ],
        ),
        says("E", "e"),
    ),
    "an agent of one's own": lambda: Own(
        "own",
        sub_agents=[
            says("A", ["wait"], "a"),
            says("B", ["ask"], "b"),
            says("C", "c"),
            says("D", ["wait"], "d"),
        ],
    ),
}


class KeepingLog(MemoryEventLog):
    """Keeps what was committed, to make logs that end behind any of the commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = list[tuple[str, Sequence[Record], list[IndexEntry], list[IndexEntry]]]()

    def submit(
        self,
        stream: str,
        records: Sequence[Record],
        done: Callable[[Appended | StorageError], None],
        **options: Unpack[BatchOptions],
    ) -> None:
        """See `EventLog.submit`."""
        put, drop = list(options.get("put", ())), list(options.get("drop", ()))
        self.commits.append((stream, list(records), put, drop))
        super().submit(stream, records, done, **options)

    def until(self, count: int) -> MemoryEventLog:
        """A log that ends behind so many commits; nobody has its claim any more."""
        log = MemoryEventLog()
        for stream, records, put, drop in self.commits[:count]:
            log.append(stream, records, put=put, drop=drop)
        return log


def to_the_end(story: Story, config: RunConfig) -> list[str]:
    """Answer and go on until nothing is left; return all that the agents have said and kept."""
    for _ in range(30):
        if story.pending:
            story.answer(story.pending[0], config=config)
        else:
            story.go_on(story.events[0].invocation_id, config=config)
        if story.result.status is RunStatus.COMPLETED and not story.pending:
            break
    assert story.result.status is RunStatus.COMPLETED
    return [words(event) for event in story.events if event.author != "user"]


def models_of(agent: BaseAgent) -> list[Any]:
    """The models of a tree."""
    own = [agent.model] if isinstance(agent, LlmAgent) else []
    return [*own, *(model for below in agent.sub_agents for model in models_of(below))]


@pytest.mark.parametrize("mode", [ToolExecution.SEQUENTIAL, ToolExecution.PARALLEL_SUBSCRIBE])
@pytest.mark.parametrize("name", TREES)
def test_behind_whichever_commit_a_process_dies_the_run_comes_to_the_same_events(
    name: str, mode: ToolExecution
) -> None:
    config, log = RunConfig(tool_execution=mode), KeepingLog()
    with Story(TREES[name](), log) as story:
        story.say(config=config)
        expected = to_the_end(story, config)
    # Branches are stored as they come.
    in_order = name not in {"branches", "an agent of one's own"}
    assert len(log.commits) > 5
    for count in range(1, len(log.commits)):
        tree = TREES[name]()
        with Story(tree, log.until(count)) as story:
            seen = to_the_end(story, config)
        assert (seen if in_order else sorted(seen)) == (expected if in_order else sorted(expected)), count
        for model in models_of(tree):
            assert_legal(model.requests)
