"""What a run begins with, and what becomes of the events that follow."""

import threading

import pytest

from apps import KEY, app_of, app_with, records
from intermission import AgentContext, BaseAgent, Content, Event, RunConfig, Runner
from intermission.agents.effects import Emit, RunAgent, Steps, emit
from intermission.testing import ManualClock, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog, Record


class Seeing(BaseAgent):
    """Keeps what it finds at its first step."""

    def __init__(self) -> None:
        super().__init__("seeing")
        self.found: list[tuple[list[str], dict[str, object]]] = []

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        self.found.append(([event.text for event in context.events], dict(context.state)))
        yield context.event(self.name, content=Content.model("seen"))


def test_an_agent_begins_with_the_users_message_and_the_changes_of_the_state_that_came_with_it() -> None:
    agent = Seeing()
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="a", state_delta={"x": 1, "y": 1, "temp:z": 1}).answer(30)
        runner.run(**KEY, message="b", state_delta={"y": 2}).answer(30)
    assert agent.found == [
        (["a"], {"x": 1, "y": 1, "temp:z": 1}),
        (["a", "seen", "b"], {"x": 1, "y": 2}),
    ]


@pytest.mark.parametrize(
    ("delta", "state", "stored"),
    [
        ({"x": 2, "z": 3}, {"x": 2, "y": 1, "z": 3}, {"x": 2, "z": 3}),
        ({"x": None}, {"y": 1}, {"x": None}),
        ({}, {"x": 1, "y": 1}, {}),
        (None, {"x": 1, "y": 1}, {}),
    ],
)
def test_a_change_of_the_state_that_comes_with_a_message_stands_on_the_users_event(
    delta: dict[str, object] | None, state: dict[str, object], stored: dict[str, object]
) -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        runner.sessions.create(**KEY, state={"x": 1, "y": 1})
        runner.run(**KEY, message="hi", state_delta=delta).answer(30)
        assert runner.sessions.get(**KEY).state == state
        user, answer = runner.sessions.events(**KEY)
    assert (user.author, user.actions.state_delta) == ("user", stored)
    assert answer.actions.state_delta == {}


class Child(BaseAgent):
    """Says two things, the first of them in a piece."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield context.event(self.name, content=Content.model("on"), partial=True)
        yield context.event(self.name, content=Content.model("one"))
        context.state["said"] = "two"
        yield Emit(context.event(self.name, content=Content.model("two")), last=True)


class Parent(BaseAgent):
    """Says something before and after its child."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield context.event(self.name, content=Content.model("before"))
        yield RunAgent(Child("child"))
        yield context.event(self.name, content=Content.model("after"))


def assert_stored_once(log: MemoryEventLog, shown: list[Event]) -> None:
    """Assert that the events of the log after the user's are those that were shown, each once, in order."""
    stored = [record.data["id"] for record in records(log) if record.kind == "event"]
    assert stored[1:] == [event.id for event in shown if not event.partial]
    assert len(stored) == len(set(stored))


def test_each_event_of_several_agents_is_stored_once_and_in_the_order_of_their_yields() -> None:
    log = MemoryEventLog()
    with Runner(app_of(Parent("parent")), log=log) as runner:
        shown = list(runner.run(**KEY, message="hi"))
    assert [event.text for event in shown] == ["before", "on", "one", "two", "after"]
    assert_stored_once(log, shown)


def test_each_event_of_a_conversation_with_tools_is_stored_once_and_each_call_keeps_its_id() -> None:
    ids = list[str]()

    def look(number: int) -> int:
        ids.append(f"{number}")
        return number

    log = MemoryEventLog()
    turn = calls(("look", {"number": 1}), ("look", {"number": 2}), text="Look")
    with Runner(
        app_with(ScriptedModel(turn, text("o", "k")), look), log=log, config=RunConfig(streaming=True)
    ) as runner:
        shown = list(runner.run(**KEY, message="hi"))
    assert_stored_once(log, shown)
    assert sorted(ids) == ["1", "2"]
    asked = [call.id for event in shown for call in event.function_calls]
    answered = [one.id for event in shown for one in event.function_responses]
    begun = [record.data["callId"] for record in records(log) if record.kind == "call_started"]
    assert asked == answered == begun
    assert len(set(asked)) == 2


class Watched(MemoryEventLog):
    """A log that notes what is read, and on which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        self.reads.append(threading.current_thread().name)
        return super().read(stream, after=after, limit=limit)


def test_a_session_is_read_once_and_not_again_while_it_is_in_memory() -> None:
    log = Watched()
    log_of_before = MemoryEventLog(share=log)
    with Runner(app_with(ScriptedModel(default="ok")), log=log_of_before) as before:
        before.run(**KEY, message="before").answer(30)
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        assert runner.run(**KEY, message="a").answer(30) == "ok"
        of_this_session = [name for name in log.reads if name.startswith("intermission-worker")]
        assert log.reads == of_this_session
        log.reads.clear()
        for _ in range(3):
            assert runner.run(**KEY, message="b").answer(30) == "ok"
        assert log.reads == []


class Timed(BaseAgent):
    """Moves the clock on before each of its events, and looks at the session after it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("timed")
        self.clock = clock
        self.seen: list[list[int]] = []

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for _ in range(2):
            self.clock.advance(1)
            event = context.event(self.name, content=Content.model("tick"))
            before = [one.seq or 0 for one in context.events]
            stored = yield from emit(event)
            assert stored.seq not in before
            self.seen.append([one.seq or 0 for one in context.events])


def test_an_event_joins_the_history_when_it_is_stored_and_makes_the_session_younger() -> None:
    clock = ManualClock()
    agent, updated = Timed(clock), list[float]()
    with Runner(app_of(agent), log=MemoryEventLog(), clock=clock) as runner:
        for _ in runner.run(**KEY, message="hi"):
            updated.append(runner.sessions.get(**KEY).updated)
        created = runner.sessions.get(**KEY).created
    assert agent.seen == [[3, 4], [3, 4, 5]]
    assert updated[0] >= created + 1
    assert updated[-1] == created + 2
