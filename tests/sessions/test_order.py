"""The order of a run, each boundary held open or refused."""

import threading
from functools import partial
from typing import Any

import pytest

from apps import APP, KEY, Slow, app_of, app_with, kinds, records, runs_in_order
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    Event,
    Run,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Steps, emit
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, error, text
from intermission_storage import LogFullError, MemoryEventLog
from races import at_once
from scale import rounds


def test_an_event_whose_append_fails_is_never_shown() -> None:
    gate, log, shown = Gate(), FaultyLog(), list[Event]()
    with Runner(app_of(Slow(gate)), log=log) as runner:
        run = runner.run(**KEY, message="a")
        run.start()
        log.refuse("event", LogFullError("no room"))
        gate.open()
        with pytest.raises(LogFullError):
            shown.extend(run)

    assert shown == []
    assert kinds(log) == ["session_created", "run_started", "event", "run_ended"]


def test_an_event_is_not_shown_while_its_append_is_under_way() -> None:
    log, gate, shown = FaultyLog(), Gate(), list[Event]()
    with Runner(app_of(Slow(gate)), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        append = log.hold("event")
        consumer = threading.Thread(target=lambda: shown.extend(run))
        consumer.start()
        gate.open()
        append.arrived()
        before = list(shown)
        append.open()
        consumer.join(30)

    assert before == []
    assert [event.text for event in shown] == ["one"]


def test_every_shown_event_but_partials_is_in_the_log_with_its_number() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text("Hel", "lo"))), log=log) as runner:
        for event in runner.run(**KEY, message="hi", config=RunConfig(streaming=True)):
            stored = runner.sessions.events(**KEY)
            if event.partial:
                assert event.seq is None
                assert event not in stored
            else:
                assert event == stored[-1]


def test_partials_are_shown_and_never_stored() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text("Hel", "lo"))), log=log) as runner:
        shown = list(runner.run(**KEY, message="hi", config=RunConfig(streaming=True)))
        stored = runner.sessions.events(**KEY)

    assert [(event.text, event.partial) for event in shown] == [("Hel", True), ("lo", True), ("Hello", False)]
    assert "".join(event.delta for event in shown) == "Hello"
    assert [event.text for event in stored] == ["hi", "Hello"]


class Witness(BaseAgent):
    """Looks into the log at its first step, and after its first event."""

    def __init__(self) -> None:
        super().__init__("witness")
        self.seen: list[list[str]] = []
        self.log = MemoryEventLog()

    def run(self, context: AgentContext) -> Steps:
        self.seen.append(kinds(self.log))
        stored = yield from emit(context.event("witness", content=Content.model("one")))
        assert stored.seq == 4
        assert context.events[-1] == stored
        self.seen.append(kinds(self.log))
        yield context.event("witness", content=Content.model("two"))


def test_the_agent_begins_after_its_user_event_and_goes_on_after_its_own_are_stored() -> None:
    agent = Witness()
    with Runner(app_of(agent), log=agent.log) as runner:
        assert runner.run(**KEY, message="hi").answer() == "two"

    begun = ["session_created", "run_started", "event"]
    assert agent.seen == [begun, [*begun, "event"]]
    assert kinds(agent.log) == [*begun, "event", "event", "run_ended"]


def test_a_result_is_there_only_after_the_end_is_stored() -> None:
    log = FaultyLog()
    end = log.hold("run_ended")
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        end.arrived()
        assert run.state == "ending"
        assert run.status is None
        with pytest.raises(TimeoutError, match="it goes on"):
            run.result(timeout=0)
        end.open()
        result = run.result()

    assert result.status is RunStatus.COMPLETED
    assert result.last_seq == records(log)[-1].seq == 5


def test_an_end_that_cannot_be_stored_fails_the_run_and_leaves_the_session_usable() -> None:
    log = FaultyLog()
    log.refuse("run_ended", LogFullError("no room"))
    with Runner(app_with(ScriptedModel("one", "two")), log=log) as runner:
        failed = runner.run(**KEY, message="a").result()
        second = runner.run(**KEY, message="b").result()

    assert failed.status is RunStatus.FAILED
    assert isinstance(failed.error, LogFullError)
    assert failed.last_seq is None
    assert second.text == "two"


def test_a_run_whose_beginning_cannot_be_stored_does_not_start() -> None:
    log, model = FaultyLog(), ScriptedModel("Hello")
    log.refuse("event", LogFullError("no room"))
    with Runner(app_with(model), log=log) as runner:
        run = runner.run(**KEY, message="a")
        with pytest.raises(LogFullError):
            run.start()
        with pytest.raises(LogFullError):
            run.result()
        assert run.status is RunStatus.FAILED
        assert model.requests == []
        assert kinds(log) == []
        assert runner.run(**KEY, message="b").answer() == "Hello"


def test_runs_of_one_session_follow_each_other_in_the_order_of_their_starts() -> None:
    gate, log = Gate(), MemoryEventLog()
    model = ScriptedModel(text(gate, "one"), "two", "three")
    with Runner(app_with(model), log=log) as runner:
        first, second, third = (runner.run(**KEY, message=word).start() for word in "abc")
        gate.arrived()
        assert (first.state, second.state, third.state) == ("running", "queued", "queued")
        assert kinds(log) == ["session_created", "run_started", "event"]
        assert len(model.requests) == 1
        gate.open()
        assert [run.answer() for run in (third, first, second)] == ["three", "one", "two"]

    assert runs_in_order(log) == [first.invocation_id, second.invocation_id, third.invocation_id]
    assert [content.text for content in model.requests[-1].contents] == ["a", "one", "b", "two", "c"]


@pytest.mark.scenario("D1")
def test_of_two_messages_at_once_both_are_answered_and_the_second_request_knows_the_first_answer() -> None:
    gate, log = Gate(), MemoryEventLog()
    model = ScriptedModel(text(gate, "one"), "two")
    with Runner(app_with(model), log=log) as runner:
        runs = [runner.run(**KEY, message=word) for word in ("a", "b")]

        def let_go() -> None:
            gate.arrived()
            gate.open()

        at_once(*[partial(run.answer, 30) for run in runs], let_go)

    assert {run.status for run in runs} == {RunStatus.COMPLETED}
    assert len(runs_in_order(log)) == 2
    (first,), said = ([content.text for content in request.contents] for request in model.requests)
    assert said == [first, "one", "b" if first == "a" else "a"]


class Unsteady:
    """A clock that stands still, and can be set."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        """See `Clock.time`."""
        return self.now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now


class Talkative(BaseAgent):
    """Says the numbers up to a thousand."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for number in range(1000):
            yield context.event(self.name, content=Content.model(f"{number}"))


@pytest.mark.scenario("D3")
def test_events_of_one_moment_and_of_a_clock_that_was_set_back_keep_their_order() -> None:
    clock, numbers = Unsteady(), [f"{number}" for number in range(1000)]
    with Runner(app_of(Talkative("talkative")), log=MemoryEventLog(), clock=clock) as runner:
        assert [event.text for event in runner.run(**KEY, message="a")] == numbers
        clock.now -= 3600
        assert [event.text for event in runner.run(**KEY, message="b")] == numbers
        stored = runner.sessions.events(**KEY)
        assert runner.sessions.get(**KEY).last_seq == (stored[-1].seq or 0) + 1

    assert [event.text for event in stored] == ["a", *numbers, "b", *numbers]
    assert [event.seq for event in stored] == sorted({event.seq or 0 for event in stored})
    assert {event.timestamp for event in stored} == {clock.now, clock.now + 3600}


def start_at(barrier: threading.Barrier, run: Run) -> None:
    barrier.wait(30)
    run.result()


def test_runs_of_one_session_that_start_at_once_never_interleave() -> None:
    threads = 4
    for _ in range(rounds(20, 300)):
        log, barrier = MemoryEventLog(), threading.Barrier(threads)
        with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
            runs = [runner.run(**KEY, message=str(number)) for number in range(threads)]

            starters = [threading.Thread(target=start_at, args=(barrier, run)) for run in runs]
            for starter in starters:
                starter.start()
            for starter in starters:
                starter.join(30)

        assert sorted(runs_in_order(log)) == sorted(str(run.invocation_id) for run in runs)


def test_sessions_do_not_wait_for_each_other_even_if_their_ids_are_equal() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "slow"), "quick")), log=MemoryEventLog()) as runner:
        slow = runner.run(user_id="u1", session_id="s", message="a").start()
        gate.arrived()
        assert runner.run(user_id="u2", session_id="s", message="b").answer() == "quick"
        assert slow.state == "running"
        gate.open()
        assert slow.answer() == "slow"


def test_the_end_of_a_run_is_stored_with_its_status_and_error() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("fine", error("service", "down"))), log=log) as runner:
        runner.run(**KEY, message="a").result()
        runner.run(**KEY, message="b").result()

    ends = [record.data for record in records(log) if record.kind == "run_ended"]
    assert [end["status"] for end in ends] == ["completed", "failed"]
    assert ends[1]["error"] == {"type": "ModelError", "message": "down"}
    assert records(log)[0].data["app"] == APP


def test_what_a_consumer_or_a_tool_does_to_values_reaches_neither_the_log_nor_the_model() -> None:
    def work(data: dict[str, Any]) -> dict[str, Any]:
        data["items"].append("by the tool")
        return {"items": data["items"]}

    model = ScriptedModel(calls(("work", {"data": {"items": ["first"]}})), "done")
    with Runner(app_with(model, work), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        for event in run:
            for call in event.function_calls:
                assert call.args == {"data": {"items": ["first"]}}
                call.args["data"]["items"].append("by the consumer")
        stored = runner.sessions.events(**KEY)

    asked = model.requests[-1].contents[1].function_calls[0].args
    assert stored[1].function_calls[0].args == asked == {"data": {"items": ["first"]}}
    assert stored[2].function_responses[0].response == {"items": ["first", "by the tool"]}
