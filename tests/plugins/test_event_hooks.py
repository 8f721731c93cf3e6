"""Hooks on events: after they are stored, before anybody is shown them."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from apps import KEY, records
from hooks import BOTH_KINDS, app_plugged, doing, plugin
from intermission import (
    Actor,
    AgentContext,
    BaseAgent,
    Content,
    Event,
    EventStored,
    HookResultError,
    LlmAgent,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.agents import Fork
from intermission.agents.effects import Steps
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.stream import LIMIT
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog

STREAMING = RunConfig(streaming=True)


def look() -> str:
    """Look."""
    return "seen"


def louder(*, invocation_context: AgentContext, event: Event) -> Event | None:
    """Show what an event says in capitals."""
    if event.content is None or not event.text:
        return None
    return replace(event, content=Content.model(event.text.upper()))


class Listener(Actor):
    """Keeps the texts of the events that are stored."""

    def __init__(self, heard: list[str], count: int, done: threading.Event) -> None:
        super().__init__()
        self.heard, self.count, self.done = heard, count, done

    def on_receive(self, message: object) -> None:
        assert isinstance(message, EventStored)
        self.heard.append(message.event.text)
        if len(self.heard) == self.count:
            self.done.set()


@BOTH_KINDS
def test_an_event_that_is_returned_is_what_everybody_is_shown_and_never_what_is_stored(kind: str) -> None:
    heard, done, gate = list[str](), threading.Event(), Gate()
    agent = LlmAgent("agent", ScriptedModel(text("it is ", gate, "there")))
    app = app_plugged(agent, plugin("plugin", kind, on_event_callback=louder))
    with Runner(app, log=MemoryEventLog(), config=STREAMING) as runner:
        runner.system.subscribe(runner.system.start(Listener, heard, 1, done), EventStored)
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (viewer,) = runner.active()
        gate.open()
        shown = list(run)
        assert [event.delta for event in shown] == ["IT IS ", "THERE", ""]
        assert shown[-1].text == "IT IS THERE"
        assert [event.text for event in viewer if event.author == "agent"][-1] == "IT IS THERE"
        assert done.wait(30)
        assert heard == ["IT IS THERE"]
        result = run.result(0)
        assert [event.text for event in result.events] == ["hi", "it is there"]
        assert (result.text, shown[-1].seq) == ("it is there", result.events[-1].seq)


def test_a_hook_sees_the_event_in_the_log_and_nobody_is_shown_it_before_the_hook_returns() -> None:
    gate, log, shown = Gate(), MemoryEventLog(), list[Event]()

    def look_at(*, invocation_context: AgentContext, event: Event) -> None:
        assert event.seq == records(log)[-1].seq
        gate.wait()

    app = app_plugged(LlmAgent("agent", ScriptedModel("ok")), plugin(on_event_callback=look_at))
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi")
        run.subscribe(shown.append)
        gate.arrived()
        assert shown == []
        assert records(log)[-1].kind == "event"
        gate.open()
        assert run.result().status is RunStatus.COMPLETED
    assert [event.text for event in shown] == ["ok"]


@BOTH_KINDS
def test_the_first_plugin_that_returns_an_event_has_the_last_word(kind: str) -> None:
    asked: list[str] = []

    def never(**_: Any) -> None:
        asked.append("never")

    app = app_plugged(
        LlmAgent("agent", ScriptedModel("ok")),
        plugin("one", kind, on_event_callback=doing(lambda: asked.append("one"))),
        plugin("two", kind, on_event_callback=louder),
        plugin("three", kind, on_event_callback=never),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        assert [event.text for event in runner.run(**KEY, message="hi")] == ["OK"]
    assert asked == ["one"]


class Counting(BaseAgent):
    """Says so many numbers."""

    def __init__(self, name: str, numbers: int) -> None:
        super().__init__(name)
        self.numbers = numbers

    def run(self, context: AgentContext) -> Steps:
        for number in range(self.numbers):
            yield context.event(self.name, content=Content.model(f"{self.name}{number}"))


class Branching(BaseAgent):
    """Counts on several branches at once."""

    def run(self, context: AgentContext) -> Steps:
        yield Fork([Counting(name, 20) for name in "abcd"])


@BOTH_KINDS
def test_events_of_parallel_branches_are_looked_at_one_at_a_time_and_shown_in_the_order_of_the_log(
    kind: str,
) -> None:
    inside, together = threading.Lock(), list[bool]()

    def look_at(*, invocation_context: AgentContext, event: Event) -> None:
        together.append(not inside.acquire(blocking=False))
        inside.release()

    with Runner(
        app_plugged(Branching("root"), plugin("plugin", kind, on_event_callback=look_at)),
        log=MemoryEventLog(),
    ) as runner:
        run = runner.run(**KEY, message="hi")
        shown = [event.seq for event in run]
        assert shown == [event.seq for event in run.result(0).events[1:]]
    assert len(shown) == 80
    assert not any(together)


@pytest.mark.scenario("D12")
@BOTH_KINDS
@pytest.mark.parametrize("streaming", [True, False])
def test_a_hook_that_raises_fails_the_run_and_the_event_stays_in_the_log(kind: str, streaming: bool) -> None:
    error = ValueError("no")

    def refuse(*, event: Event, **_: Any) -> None:
        if event.partial is streaming and event.text:
            raise error

    app = app_plugged(
        LlmAgent("agent", ScriptedModel(text("o", "k"), default="ok")),
        plugin("plugin", kind, on_event_callback=refuse),
    )
    with Runner(app, log=MemoryEventLog(), config=RunConfig(streaming=streaming)) as runner:
        run = runner.run(**KEY, message="hi")
        shown = list[Event]()
        with pytest.raises(ValueError, match="no") as raised:
            shown.extend(run)
        assert raised.value is error
        stored = [event.text for event in run.result(0).events]
        assert stored[1:] in ([], ["ok"]) if streaming else stored == ["hi", "ok"]
    assert [event for event in shown if not event.partial] == []


def test_who_waits_for_an_event_that_a_hook_refuses_finds_the_end_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail = Lifecycle.fail

    def fail_late(run: Lifecycle, error: Exception) -> None:
        run.wait_ended(0.2)  # it must not end meanwhile, as if its agent had come to its end
        fail(run, error)

    monkeypatch.setattr(Lifecycle, "fail", fail_late)

    def refuse(*, event: Event, **_: Any) -> None:
        if event.partial:
            raise ValueError("no")

    agent = LlmAgent("agent", ScriptedModel(text("o", "k")))
    app = app_plugged(agent, plugin("plugin", "async", on_event_callback=refuse))
    with Runner(app, log=MemoryEventLog(), config=STREAMING) as runner:
        assert runner.run(**KEY, message="hi").result().status is RunStatus.FAILED


def test_what_is_no_event_is_an_error_that_names_the_hook() -> None:
    def wrong(**_: Any) -> str:
        return "ok"

    app = app_plugged(LlmAgent("agent", ScriptedModel("ok")), plugin(on_event_callback=wrong))
    with Runner(app, log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert isinstance(result.error, HookResultError)
    assert "wrong returned an instance of str; it may return None or an instance of Event" in str(
        result.error
    )


def test_what_the_hook_makes_of_partials_and_of_the_final_is_shown_once() -> None:
    def final_only(*, event: Event, **_: Any) -> Event | None:
        return None if event.partial else replace(event, content=Content.model("It is in Delft."))

    def partials_only(*, event: Event, **_: Any) -> Event | None:
        return replace(event, content=Content.model(event.text.upper())) if event.partial else None

    found: list[list[str]] = []
    for hook in (final_only, partials_only):
        model = ScriptedModel(text("It is ", "in Utrecht."))
        app = app_plugged(LlmAgent("agent", model), plugin(on_event_callback=hook))
        with Runner(app, log=MemoryEventLog(), config=STREAMING) as runner:
            found.append([event.delta for event in runner.run(**KEY, message="hi")])
    assert found == [["It is ", "in Utrecht.", "Delft."], ["IT IS ", "IN UTRECHT.", "t is in Utrecht."]]


class Repeating(BaseAgent):
    """Shows a partial, and then the whole without saying that some of it was shown."""

    def run(self, context: AgentContext) -> Steps:
        yield context.event(self.name, content=Content.model("one "), partial=True)
        yield context.event(self.name, content=Content.model("one two"))


@pytest.mark.parametrize("hook", [doing(lambda: None), louder])
def test_an_agent_that_does_not_say_what_it_has_shown_shows_the_same_with_a_plugin_as_without(
    hook: Any,
) -> None:
    app = app_plugged(Repeating("agent"), plugin(on_event_callback=hook))
    with Runner(app, log=MemoryEventLog()) as runner:
        deltas = [event.delta.lower() for event in runner.run(**KEY, message="hi")]
    assert deltas == ["one ", "one two"]


def test_a_slow_consumer_is_shown_what_the_plugin_has_made_though_it_reads_from_the_log() -> None:
    count = LIMIT + 50
    app = app_plugged(Counting("n", count), plugin(on_event_callback=louder))
    with Runner(app, log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert run.result().status is RunStatus.COMPLETED
        assert [event.text for event in run] == [f"N{number}" for number in range(count)]


def test_a_run_whose_model_is_asked_while_its_inputs_are_stored_shows_its_events_in_order() -> None:
    model = ScriptedModel(calls(("look", {})), text("a", "b"))
    app = app_plugged(LlmAgent("agent", model, tools=[look]), plugin(on_event_callback=louder))
    config = RunConfig(streaming=True, overlap_model_calls=True)
    with Runner(app, log=MemoryEventLog(), config=config) as runner:
        shown = list(runner.run(**KEY, message="hi"))
    assert [(event.partial, event.text) for event in shown] == [
        (False, ""),
        (False, ""),
        (True, "A"),
        (True, "B"),
        (False, "AB"),
    ]


def test_what_a_hook_on_events_changes_in_the_state_is_carried_by_no_event() -> None:
    seen: list[dict[str, Any]] = []

    def change(*, invocation_context: AgentContext, event: Event) -> None:
        seen.append(dict(invocation_context.state))
        invocation_context.state["looked"] = True

    app = app_plugged(Counting("n", 2), plugin(on_event_callback=change))
    with Runner(app, log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi", state_delta={"known": 1}).result()
        assert runner.sessions.get(**KEY).state == {"known": 1}
    assert seen[0] == {"known": 1}
