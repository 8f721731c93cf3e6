"""Viewers: what they see, that nothing is missing or comes twice, and that they touch nothing."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import scale
from apps import KEY, app_of, app_with
from children import Child
from intermission import (
    AgentContext,
    BaseAgent,
    CancelSource,
    Content,
    Event,
    Run,
    Runner,
    RunResult,
    RunStatus,
    SessionBusyError,
    SessionNotFoundError,
)
from intermission.agents.effects import Call, Steps
from intermission.testing import FaultyLog, Gate, ScriptedModel, text
from intermission_storage import (
    Appended,
    Head,
    Kind,
    LmdbEventLog,
    MemoryEventLog,
    Record,
    StorageError,
)
from intermission_storage.log import Done


class Talking(BaseAgent):
    """An agent that says so many words, and calls a function before each."""

    def __init__(self, count: int, before: Callable[[int], object] | None = None) -> None:
        super().__init__("talking")
        self._count = count
        self._before = before

    def run(self, context: AgentContext) -> Steps:
        for number in range(self._count):
            if self._before is not None:
                yield Call(self._before, number)
            yield context.event(self.name, content=Content.model(f"{context.events[-1].seq}.{number}"))


def seqs(events: list[Event]) -> list[int | None]:
    return [event.seq for event in events]


def test_without_a_run_a_viewer_shows_what_is_stored_and_ends() -> None:
    with Runner(app_with(ScriptedModel("one", "two")), log=MemoryEventLog()) as runner:
        for word in "ab":
            runner.run(**KEY, message=word).result()
        everything = runner.sessions.events(**KEY)

        assert list(runner.attach(**KEY)) == everything
        assert list(runner.attach(**KEY, after=4)) == everything[2:]
        assert list(runner.attach(**KEY, after=100)) == []
        result = runner.attach(**KEY).result(1)
        assert (result.status, result.text, result.events) == (RunStatus.COMPLETED, "two", everything[2:])


def test_a_session_that_is_not_there_and_a_negative_number_are_refused() -> None:
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog()) as runner:
        with pytest.raises(SessionNotFoundError):
            runner.attach(**KEY)
        runner.sessions.create(**KEY)
        assert list(runner.attach(**KEY)) == []
        with pytest.raises(ValueError, match="after is -1"):
            runner.attach(**KEY, after=-1)


def test_a_viewer_shows_the_stored_events_and_then_those_of_the_run_in_flight() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel("one", text(gate, "two"))), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="a").result()
        run = runner.run(**KEY, message="b").start()
        gate.arrived()
        whole, rest = runner.attach(**KEY), runner.attach(**KEY, after=4)
        gate.open()
        assert [event.text for event in whole] == ["a", "one", "b", "two"]
        assert [event.text for event in rest] == ["b", "two"]
        assert whole.result().status is RunStatus.COMPLETED
        assert [event.text for event in run] == ["two"]


def test_a_viewer_of_a_run_that_begins_later_misses_nothing() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel("one", "two")), log=log) as runner:
        runner.run(**KEY, message="a").result()
        gate = log.hold("event")
        run = runner.run(**KEY, message="b")
        run.begin()
        gate.arrived()
        viewer, own = runner.attach(**KEY), runner.active(**KEY)[0]
        gate.open()
        assert [event.text for event in viewer] == ["a", "one", "b", "two"]
        assert [event.text for event in own] == ["b", "two"]


@pytest.mark.scenario("A4")
def test_a_client_that_attaches_again_between_two_commits_gets_every_later_event_once() -> None:
    count = scale.rounds(200, 2000)
    log = FaultyLog()
    attached: list[Run] = []
    position: list[int] = []

    def attach(number: int) -> None:
        # Here the event before is stored and shown, and the next one is not yet made.
        position.append(log.head(log.streams()[0]).position)
        attached.append(runner.attach(**KEY, after=position[number]))

    with Runner(app_of(Talking(count, attach)), log=log) as runner:
        run = runner.run(**KEY, message="go")
        events = list(run)
        stored = runner.sessions.events(**KEY)
        assert events == stored[1:]
        for after, viewer in zip(position, attached, strict=True):
            assert seqs(list(viewer)) == [seq for seq in seqs(stored) if (seq or 0) > after]


@pytest.mark.scenario("A4")
def test_attaching_while_an_event_is_stored_and_not_yet_shown_gives_it_once() -> None:
    # The second event is in the log, but its `done` has not come: no thread may tell it to the run.
    told, answered = threading.Event(), Gate()

    class Late(MemoryEventLog):
        def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
            if any(record.data.get("content", {}) and "x.1" in str(record.data) for record in records):

                def later(outcome: Appended | StorageError) -> None:
                    def answer() -> None:
                        answered.wait()
                        done(outcome)

                    threading.Thread(target=answer).start()
                    told.set()

                super().submit(stream, records, later, **options)
            else:
                super().submit(stream, records, done, **options)

    class Two(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            for number in range(3):
                yield context.event(self.name, content=Content.model(f"x.{number}"))

    with Runner(app_of(Two("two")), log=Late()) as runner:
        run = runner.run(**KEY, message="go").start()
        assert told.wait(30)
        viewers = [runner.attach(**KEY, after=after) for after in range(6)]
        answered.open()
        run.result(30)
        stored = runner.sessions.events(**KEY)
        for after, viewer in enumerate(viewers):
            assert seqs(list(viewer)) == [seq for seq in seqs(stored) if (seq or 0) > after]


def test_attaching_at_any_moment_gives_every_event_once() -> None:
    rounds = scale.rounds(100, 1000)
    with Runner(app_of(Talking(300)), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="go").start()
        viewers = [runner.attach(**KEY, after=number % 5) for number in range(rounds)]
        run.result(60)
        stored = seqs(runner.sessions.events(**KEY))
        for number, viewer in enumerate(viewers):
            assert seqs(list(viewer)) == [seq for seq in stored if (seq or 0) > number % 5]


class Moving(MemoryEventLog):
    """A memory log on which something happens right after the next look at where a stream stands."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def head(self, stream: str) -> Head:
        found = super().head(stream)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found


def test_what_is_stored_and_shown_while_somebody_attaches_is_not_missing() -> None:
    log, gates = Moving(), [Gate(), Gate()]
    with Runner(app_of(Talking(2, lambda number: gates[number].wait())), log=log) as runner:
        events = iter(runner.run(**KEY, message="go"))
        gates[0].arrived()

        def go_on() -> None:
            gates[0].open()
            next(events)

        log.meanwhile = go_on
        viewed = iter(runner.attach(**KEY))
        first = next(viewed)  # what was stored when it was attached has been read now
        gates[1].open()
        assert len(list(events)) == 1
        assert seqs([first, *viewed]) == seqs(runner.sessions.events(**KEY))


def test_a_viewer_keeps_no_run_alive_whose_consumer_is_gone() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="a")
        with run:
            gate.arrived()
            viewer = runner.attach(**KEY).__enter__()
        gate.open()
        assert viewer.result(30).status is RunStatus.CANCELLED
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.CONSUMER_LOST


def test_viewers_that_go_touch_nothing_and_their_cancel_ends_the_run() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="a")
        events = iter(run)
        gate.arrived()
        with runner.attach(**KEY):
            pass
        for _ in runner.attach(**KEY):
            break
        with pytest.raises(TimeoutError):
            runner.attach(**KEY).result(0)
        viewer = runner.attach(**KEY)
        viewer.start()
        del viewer
        subscription = runner.attach(**KEY).subscribe(lambda _: None)
        subscription.dispose()
        assert run.cancel_report is None

        last = runner.attach(**KEY)
        assert last.cancel("enough").accepted
        gate.open()
        assert list(events) == []
        assert last.result(30).status is run.status is RunStatus.CANCELLED
        assert [event.text for event in last] == ["a"]


def test_a_viewer_that_is_subscribed_gets_what_its_owner_gets_and_fails_nothing() -> None:
    gate = Gate()
    got: list[str] = []
    results: list[RunResult] = []
    over = threading.Event()

    def on_event(event: Event) -> None:
        got.append(event.text)
        raise ValueError("a viewer's own trouble")

    def on_finally(result: RunResult) -> None:
        results.append(result)
        over.set()

    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        runner.attach(**KEY).subscribe(on_event, on_finally=on_finally)
        gate.open()
        assert run.answer(30) == "one"
        assert over.wait(30)
    assert got == ["a"]
    assert results[0].status is RunStatus.COMPLETED


def test_a_viewer_on_an_event_loop() -> None:
    async def use(runner: Runner) -> None:
        run = await runner.run(**KEY, message="go").astart()
        viewer = await runner.aattach(**KEY)
        got = [event async for event in viewer]
        await run
        assert got == await runner.sessions.aevents(**KEY)
        assert (await viewer).status is RunStatus.COMPLETED

    with Runner(app_of(Talking(50)), log=MemoryEventLog()) as runner:
        asyncio.run(use(runner))


# Runs of others.


def test_a_run_of_another_process_is_followed_as_it_is_stored_until_its_end(tmp_path: Path) -> None:
    with Child("running", tmp_path / "log") as child:
        _, invocation_id = child.hear()
        with LmdbEventLog(tmp_path / "log") as log, Runner(app_of(Talking(1)), log=log) as runner:
            viewer, late = runner.attach(**KEY), runner.attach(**KEY, after=3)
            assert viewer.invocation_id == invocation_id
            events = iter(viewer)
            assert next(events).text == "go"
            for word in "abc":
                child.tell(word)
                assert next(events).text == word
            with pytest.raises(SessionBusyError, match=str(child.pid)):
                viewer.cancel()
            with pytest.raises(SessionBusyError):
                runner.cancel(**KEY)
            child.tell("end")
            assert child.hear() == "completed"
            assert list(events) == []
            assert viewer.result(30).status is RunStatus.COMPLETED
            assert [event.text for event in late] == ["a", "b", "c"]
            child.end()


def test_a_run_whose_process_dies_ends_for_its_viewers_as_interrupted(tmp_path: Path) -> None:
    with Child("running", tmp_path / "log") as child:
        child.hear()
        with LmdbEventLog(tmp_path / "log") as log, Runner(app_of(Talking(1)), log=log) as runner:
            viewer = runner.attach(**KEY)
            child.tell("a")
            events = iter(viewer)
            assert [next(events).text, next(events).text] == ["go", "a"]
            child.kill()
            assert list(events) == []
            assert viewer.result(30).status is RunStatus.INTERRUPTED

            receipt = runner.cancel(**KEY, reason="its process is dead")
            assert (receipt.accepted, receipt.durable) == (True, True)
            record = runner.sessions.runs(**KEY)[0]
            assert (record.status, record.source) == (RunStatus.CANCELLED, CancelSource.ADMIN)
            assert runner.cancel(**KEY).nothing_running


def test_a_run_of_another_runner_is_taken_over_and_ended_on_demand() -> None:
    gate, log = Gate(), MemoryEventLog()
    with (
        Runner(app_with(ScriptedModel(text(gate, "one"))), log=log) as runner,
        Runner(app_with(ScriptedModel("two")), log=MemoryEventLog(share=log)) as other,
    ):
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        assert other.cancel(**KEY, invocation_id="another").nothing_running
        assert other.cancel(**KEY, reason="it hangs", take_over=True).accepted
        assert other.run(**KEY, message="b").answer(30) == "two"
        gate.open()
        assert run.result(30).status is RunStatus.FAILED
        assert [one.reason for one in other.sessions.runs(**KEY)] == ["it hangs", ""]
        assert [record.kind for record in log.read(log.streams()[0])].count(Kind.RUN_ENDED) == 2


def test_closing_the_runner_ends_the_viewers_of_runs_elsewhere() -> None:
    gate, log = Gate(), MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        with Runner(app_with(ScriptedModel()), log=MemoryEventLog(share=log)) as other:
            viewer = other.attach(**KEY)
            dropped = other.attach(**KEY)
            del dropped
        assert viewer.result(1).status is RunStatus.ELSEWHERE
        gate.open()
        assert run.answer(30) == "one"
