"""Turns of tool calls: tools at gates, what the model was told, and whether its history is legal."""

import dataclasses
import threading
from typing import Any

from apps import app_with
from async_gates import AsyncGate
from intermission import Runner, ToolContext
from intermission.actions import Actions
from intermission.kernel.scope import CancelScope
from intermission.models import ModelRequest
from intermission.runs.result import RunResult
from intermission.state import State
from intermission.testing import Gate, ScriptedModel, calls, contents_problems
from intermission_storage import EventLog, MemoryEventLog
from wire_shapes import problems_on_the_wire

__all__ = ["PATIENCE", "Bench", "answers", "assert_legal", "context", "responses"]

PATIENCE = 30.0


class Bench:
    """Three blocking and three async tools, each at a gate of its own, and who came in which order."""

    def __init__(self) -> None:
        self.blocking = {name: Gate() for name in "abc"}
        self.waiting = {name: AsyncGate() for name in "xyz"}
        self._lock = threading.Lock()
        self.order: list[str] = []

    def block(self, name: str) -> str:
        """Block."""
        self._note(f"+{name}")
        self.blocking[name].wait()
        self._note(f"-{name}")
        return name

    async def wait(self, name: str) -> str:
        """Wait."""
        self._note(f"+{name}")
        await self.waiting[name].wait()
        self._note(f"-{name}")
        return name

    def _note(self, what: str) -> None:
        with self._lock:
            self.order.append(what)

    def open(self, names: str) -> None:
        """Open gates."""
        for name in names:
            (self.blocking.get(name) or self.waiting[name]).open()

    def model(self, names: str) -> ScriptedModel:
        """A model that calls the tools of these names, in order, once."""
        return ScriptedModel(
            calls(*(("block" if name in "abc" else "wait", {"name": name}) for name in names)), "done"
        )

    def runner(self, names: str, log: EventLog | None = None) -> tuple[Runner, ScriptedModel]:
        """A runner for a turn of these calls."""
        model = self.model(names)
        return Runner(app_with(model, self.block, self.wait), log=log or MemoryEventLog()), model


def responses(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was told of its calls, in its last request."""
    return [
        dict(response.response)
        for content in model.requests[-1].contents
        for response in content.function_responses
    ]


def answers(result: RunResult) -> list[dict[str, Any]]:
    """What is stored of the calls of a run, in their order."""
    made = [call.id for event in result.events for call in event.function_calls]
    found = [one for event in result.events for one in event.function_responses]
    assert made == [one.id for one in found]
    return [dict(one.response) for one in found]


def assert_legal(request: ModelRequest) -> None:
    """Assert that the clients of OpenAI, Anthropic and Gemini could send a request."""
    assert contents_problems(request.contents) == []
    assert problems_on_the_wire(request.contents) == {}


def context(**changes: Any) -> ToolContext:
    """The context of a call of no run."""
    made = ToolContext(
        function_call_id="c1",
        invocation_id="e-1",
        user_id="u",
        session_id="s",
        state=State(dict),
        cancellation=CancelScope.child_of(None),
        actions=Actions(),
        request_stop=lambda reason: None,
    )
    return dataclasses.replace(made, **changes)
