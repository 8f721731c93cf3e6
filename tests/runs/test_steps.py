"""What a step of a run costs does not grow with its session. Counted in events that are read: no clock."""

import itertools
from collections.abc import Iterator
from typing import SupportsIndex, overload

import pytest

from apps import KEY
from intermission import (
    App,
    BaseAgent,
    Content,
    Event,
    EventsCompactionConfig,
    FunctionCall,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    ResumabilityConfig,
    RunConfig,
    Runner,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.sessions.view import SessionView
from intermission_storage import MemoryEventLog

STEPS = 30
MOST = 12  # events that are read in a step; before it there are five times as many and more


class Walked(list[Event]):
    """The events of a session, which counts how many of them are read."""

    read = 0

    def __iter__(self) -> Iterator[Event]:
        for event in super().__iter__():
            self.read += 1
            yield event

    def __reversed__(self) -> Iterator[Event]:
        for event in super().__reversed__():
            self.read += 1
            yield event

    @overload
    def __getitem__(self, index: SupportsIndex) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Event | list[Event]:
        self.read += len(range(len(self))[index]) if isinstance(index, slice) else 1
        return super().__getitem__(index)


class Steps:
    """A model that keeps how many events had been read whenever it was asked.

    Args:
        events: The session's events.
        calls: How often it calls a tool before it says something.
    """

    name = "steps"

    def __init__(self, events: Walked, calls: int = 0) -> None:
        self._events = events
        self._calls = calls
        self._left = 0
        self.read: list[int] = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.read.append(self._events.read)
        self._left = (self._left or self._calls + 1) - 1
        calls = [FunctionCall("", "echo", {"text": "hi"})] if self._left else []
        yield ModelResponse(content=Content.model("hi", calls=calls))


def echo(text: str) -> str:
    """Say it again."""
    return text


def caller(model: Steps, contents: str = "default") -> BaseAgent:
    return LlmAgent("agent", model, tools=[echo], include_contents=contents)


def loop(model: Steps) -> BaseAgent:
    """Agents of one step each, which begin and end in each turn of a loop, side by side."""
    agents = [LlmAgent(name, model) for name in ("first", "second")]
    return LoopAgent("loop", max_iterations=STEPS // 2, sub_agents=[ParallelAgent("both", sub_agents=agents)])


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Walked:
    events, make = Walked(), SessionView.__init__

    def make_with(view: SessionView) -> None:
        make(view)
        view.events = events

    monkeypatch.setattr(SessionView, "__init__", make_with)
    return events


@pytest.mark.parametrize("case", ["calls", "overlap", "current turn", "loop", "summed up"])
def test_a_step_reads_what_is_new_and_not_the_session(case: str, walked: Walked) -> None:
    model = Steps(walked, 0 if case == "loop" else STEPS)
    root = loop(model) if case == "loop" else caller(model, "none" if case == "current turn" else "default")
    app = App(
        "app",
        root,
        resumability_config=ResumabilityConfig(is_resumable=True),
        events_compaction_config=EventsCompactionConfig(1, 0, lambda _: "sum")
        if case == "summed up"
        else None,
    )
    config = RunConfig(overlap_model_calls=case == "overlap")
    with Runner(app, log=MemoryEventLog(), config=config) as runner:
        runner.run(**KEY, message="go").answer()
        model.read.clear()
        before = len(walked)
        runner.run(**KEY, message="go on").answer()

    read = [later - earlier for earlier, later in itertools.pairwise(model.read)]
    assert before > MOST * 5
    assert len(read) > STEPS - 2
    assert max(read[1:]) <= MOST  # before that, the other agent of the loop has read all, once
