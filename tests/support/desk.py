"""`Desk`: an agent whose tools stand at gates, in a session that is to go on whatever ended its run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from apps import KEY, app_with
from async_gates import AsyncGate
from intermission import Content, FunctionCall, Run, RunConfig, Runner
from intermission.models import ModelRequest
from intermission.testing import FaultyLog, Gate, ManualClock, ScriptedModel, calls, contents_problems
from intermission.testing.replies import Reply
from intermission_storage import Kind
from pools import until
from wire_shapes import problems_on_the_wire

__all__ = ["PATIENCE", "Desk", "assert_legal", "told"]

PATIENCE = 30.0


def assert_legal(requests: Iterable[ModelRequest]) -> None:
    """Assert that the clients of OpenAI, Anthropic and Gemini could send each of these requests."""
    for request in requests:
        assert contents_problems(request.contents) == []
        assert problems_on_the_wire(request.contents) == {}


def told(contents: Iterable[Content]) -> list[Any]:
    """Return what a model was told of each call: its result, or else what became of it."""
    responses = [one.response for content in contents for one in content.function_responses]
    return [one.get("result") or _became(one) for one in responses]


def _became(response: Mapping[str, Any]) -> Any:
    return "error" if response["status"] == "error" else response["outcome"]


class Desk:
    """A runner on a log that can be held. The tools `a`, `b`, `c` block at their gates, `x`, `y`, `z` wait.

    Args:
        reply: What the model says first: the names of the tools that it calls, or anything else, or what
            makes that of the gate `speaking`. All that it says later is "ok".
        config: Of the first run.
    """

    def __init__(self, reply: str | Reply | Callable[[Gate], Reply], config: RunConfig) -> None:
        self.blocking = {name: Gate() for name in "abc"}
        self.waiting = {name: AsyncGate() for name in "xyz"}
        self.log, self.clock, self.config = FaultyLog(), ManualClock(), config
        self.speaking = Gate()
        if isinstance(reply, str):
            first: Reply = calls(*[(name, dict[str, Any]()) for name in reply])
        else:
            first = reply(self.speaking) if callable(reply) else reply
        self.model = ScriptedModel(first, default="ok")
        self.held = [self.speaking]
        self.runner = self._runner()
        self.run = self.runner.run(**KEY, message="hi", config=config)

    def _runner(self) -> Runner:
        tools = [*map(self._blocks, "abc"), *map(self._waits, "xyz")]
        return Runner(app_with(self.model, *tools), log=self.log, clock=self.clock)

    def _blocks(self, name: str) -> Callable[[], str]:
        def tool() -> str:
            self.blocking[name].wait()
            return name

        tool.__name__ = name
        return tool

    def _waits(self, name: str) -> Callable[[], Any]:
        async def tool() -> str:
            await self.waiting[name].wait()
            return name

        tool.__name__ = name
        return tool

    def start(self, arriving: str = "") -> Run:
        """Start the run, and return it when these tools have begun."""
        self.run.start()
        for name in arriving:
            (self.blocking.get(name) or self.waiting[name]).arrived()
        return self.run

    def begun(self) -> dict[str, int]:
        """Return how often each tool has begun."""
        blocking = {name: gate.arrivals for name, gate in self.blocking.items()}
        return blocking | {name: gate.arrivals for name, gate in self.waiting.items()}

    def open(self, names: str = "abcxyz") -> None:
        """Open gates."""
        for name in names:
            (self.blocking.get(name) or self.waiting[name]).open()

    def finish(self, name: str) -> None:
        """Open a tool's gate, and return when it is in the log that the call has ended."""
        before = self._finished()
        self.open(name)
        until(lambda: self._finished() > before)

    def _finished(self) -> int:
        (stream,) = self.log.streams()
        return [record.kind for record in self.log.read(stream)].count(Kind.CALL_FINISHED)

    def calls(self) -> Sequence[FunctionCall]:
        """Return the calls of the turn."""
        return self.runner.sessions.events(**KEY)[-1].function_calls

    def hold(self, batch: Any) -> Gate:
        """Hold a batch of the log, from when the run begins."""
        gate = self.log.hold(batch)
        self.held.append(gate)
        self.run.begin()
        gate.arrived()
        return gate

    def go_on(self, *, restart: bool) -> list[Any]:
        """Let all go, send the next message, and return what its model was told of the calls before.

        Args:
            restart: On a new runner.
        """
        self.open()
        for gate in self.held:
            gate.open()
        self.run.result(PATIENCE)
        if restart:
            self.runner.close()
            self.runner = self._runner()
        assert self.runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
        assert_legal(self.model.requests)
        return told(self.model.requests[-1].contents)

    def close(self) -> None:
        """Open every gate and close the runner."""
        self.open()
        for gate in self.held:
            gate.open()
        self.runner.close()
        self.log.close()
