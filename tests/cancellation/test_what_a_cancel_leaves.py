"""What is in the log after a cancel or a lost consumer, compared with what was shown."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, Key, app_with, kinds, records
from intermission import Event, Run, RunConfig, Runner, RunStatus
from intermission.models import ChatCompletions
from intermission.testing import FaultyLog, Gate, ModelServer, ScriptedModel, calls, stream, text
from intermission_storage import LmdbEventLog, LogFullError, MemoryEventLog
from loops import PATIENCE
from races import at_once
from scale import rounds

ROUNDS = rounds(200, 1000)
STREAMING = RunConfig(streaming=True)
DETACHED = RunConfig(streaming=True, on_consumer_lost="detach")


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


class Writer:
    """A subscriber that writes down the number of each final event, and lets a test wait for a count."""

    def __init__(self, run: Run) -> None:
        self.seen: list[int] = []
        self.over = threading.Event()
        self._changed = threading.Condition()
        run.subscribe(self.on_event, on_finally=lambda _: self.end())

    def on_event(self, event: Event) -> None:
        """Write it down."""
        with self._changed:
            if event.seq is not None:
                self.seen.append(event.seq)
                self._changed.notify_all()

    def end(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self.over.set()
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        """Wait until so many are written down, or nothing more comes."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count or self.over.is_set(), PATIENCE)


@pytest.mark.scenario("E14")
def test_whatever_a_subscriber_was_shown_as_final_is_in_the_log_in_that_order_when_a_cancel_comes(
    tmp_path: Path,
) -> None:
    def look() -> str:
        return "seen"

    dice, statuses = random.Random(14), set[RunStatus]()
    look_twice: list[Any] = [calls(("look", {})), calls(("look", {})), text("o", "k")]
    model = ScriptedModel(*look_twice * ROUNDS, default="ok")
    with (
        closing(LmdbEventLog(tmp_path / "log", sync=False)) as log,
        Runner(app_with(model, look), log=log, config=STREAMING) as runner,
    ):
        for number in range(ROUNDS):
            key: Key = {"user_id": "u", "session_id": str(number)}
            run, count = runner.run(**key, message="hi"), dice.randrange(6)
            writer = Writer(run)

            def cancel(run: Run = run, writer: Writer = writer, count: int = count) -> None:
                writer.wait(count)
                run.cancel("enough")

            at_once(cancel)
            statuses.add(run.result(PATIENCE).status)
            assert writer.over.wait(PATIENCE)
            stored = [one.seq for one in records(log, **key) if one.kind == "event"]
            assert writer.seen == [seq for seq in stored if seq in set(writer.seen)]
            assert writer.seen == stored[1 : len(writer.seen) + 1]  # from the first on, none left out
            assert len(writer.seen) >= count or run.status is RunStatus.COMPLETED
    assert RunStatus.CANCELLED in statuses


@pytest.mark.scenario("A2", "A4")
def test_a_detached_run_whose_client_goes_in_a_tool_ends_and_a_client_that_comes_back_reads_all_of_it(
    gate: Gate,
) -> None:
    begun: list[int] = []

    def work() -> str:
        begun.append(1)
        gate.wait()
        return "worked"

    log = MemoryEventLog()
    model = ScriptedModel(calls(("work", {})), text("all ", "done"), default="ok")
    with Runner(app_with(model, work), log=log, config=DETACHED) as runner:
        run = runner.run(**KEY, message="hi")
        events = iter(run)
        last = next(event.seq for event in events if event.seq is not None)
        gate.arrived()
        del events
        again = iter(runner.attach(**KEY, after=last or 0))
        gate.open()
        seen = [event for event in again if not event.partial]
        assert run.result(PATIENCE).status is RunStatus.COMPLETED
        stored = [one.seq for one in records(log) if one.kind == "event"]
        assert [event.seq for event in seen] == [seq for seq in stored if seq > (last or 0)]
        assert seen[0].function_responses[0].response == {"result": "worked"}
        assert seen[-1].text == "all done"
        assert begun == [1]
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


@pytest.mark.scenario("A3")
def test_after_the_cancel_of_a_lost_consumer_nothing_that_was_not_shown_whole_is_stored_or_told_the_model(
    gate: Gate,
) -> None:
    log = MemoryEventLog()
    with (
        ModelServer(stream("half ", gate, "an answer"), "ok") as server,
        closing(ChatCompletions("small", base_url=server.url, api_key="key")) as model,
        Runner(app_with(model), log=log, config=STREAMING) as runner,
    ):
        run = runner.run(**KEY, message="hi")
        pieces = run.text_stream()
        assert next(iter(pieces)) == "half "
        pieces.close()  # type: ignore[attr-defined]  # it is a generator
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        server.wait_aborted()
        gate.open()
        assert run.wait_terminated(PATIENCE)
        after = kinds(log)
        assert after[after.index("cancel_requested") + 1 :] == ["run_ended"]
        assert "half" not in str([one.data for one in records(log)])
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
        said = [message["content"] for message in server.requests[-1]["messages"]]
        assert said == ["hi", "next"]


def test_a_cancel_while_an_append_is_under_way_that_then_fails_is_no_failure_of_the_log() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(calls(("look", {})), default="ok")), log=log) as runner:
        held = log.hold(2)
        log.refuse(2, LogFullError("no room"))
        run = runner.run(**KEY, message="hi")
        run.begin()
        held.arrived()
        assert run.cancel("enough").accepted
        held.open()
        result = run.result(PATIENCE)
        assert (result.status, result.error) == (RunStatus.CANCELLED, None)
        assert kinds(log)[1:] == ["run_started", "event", "cancel_requested", "run_ended"]
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


def test_a_cancel_whose_end_cannot_be_stored_fails_with_the_logs_error_and_is_stored_before_the_next_run(
    gate: Gate,
) -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(text(gate, "late"), default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        log.refuse("run_ended", LogFullError("no room"))
        receipt = run.cancel("enough")
        assert receipt.accepted
        assert not receipt.durable
        result = run.result(PATIENCE)
        assert (result.status, type(result.error)) == (RunStatus.FAILED, LogFullError)
        gate.open()
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    ends = [record.data["status"] for record in records(log) if record.kind == "run_ended"]
    assert ends == ["failed", "completed"]
