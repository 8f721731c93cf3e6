"""`on_run_end`, at least once for every run that has begun, and `on_residual_end`."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY, kinds, records
from children import Child
from hooks import BOTH_KINDS, app_plugged, doing, plugin
from intermission import (
    AgentContext,
    BaseAgent,
    CancelSource,
    Content,
    LlmAgent,
    Run,
    Runner,
    RunRecord,
    RunResult,
    RunStatus,
)
from intermission.agents.effects import Call, Steps
from intermission.keys import SessionKey
from intermission.sessions.records import UNDELIVERED, open_run, run_started
from intermission.testing import FaultyLog, Gate, ScriptedModel
from intermission_storage import LmdbEventLog, LogFullError, MemoryEventLog
from pools import until


class Ends:
    """Keeps the ends that it is told; each may be waited for."""

    def __init__(self) -> None:
        self.told: list[tuple[Run | RunRecord, RunResult]] = []
        self._changed = threading.Condition()

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """See `Plugin.on_run_end`."""
        with self._changed:
            self.told.append((run, result))
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[RunStatus]:
        """Return the statuses when so many were told."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= count, 30), self.told
            return [result.status for _, result in self.told]


class Acting(BaseAgent):
    """Does what the message says: waits at a gate and says "ok", or fails."""

    def __init__(self, gate: Gate) -> None:
        super().__init__("acting")
        self.gate = gate

    def run(self, context: AgentContext) -> Steps:
        if context.events[-1].text == "fail":
            raise ValueError("failed")
        yield context.event(self.name, content=Content.model("begun"))
        yield Call(self.gate.wait)
        yield context.event(self.name, content=Content.model("ok"))


def llm() -> LlmAgent:
    return LlmAgent("agent", ScriptedModel(default="ok"))


@BOTH_KINDS
def test_the_end_of_every_run_is_told_once_whatever_its_end_and_the_log_knows_that_it_was(kind: str) -> None:
    ends, gate, log = Ends(), Gate(), MemoryEventLog()
    app = app_plugged(Acting(gate), plugin("plugin", kind, on_run_end=ends.on_run_end))
    runner = Runner(app, log=log)
    assert runner.run(**KEY, message="fail").result().status is RunStatus.FAILED
    cancelled = runner.run(**KEY, message="wait").start()
    gate.arrived()
    cancelled.cancel("enough")
    ends.wait(2)
    interrupted = runner.run(**KEY, message="wait").start()
    gate.arrived(2)
    runner.close(grace=0, runs="release")
    gate.open()
    with Runner(app, log=log) as again:
        assert again.run(**KEY, message="go").result().status is RunStatus.COMPLETED
    assert ends.wait(4) == ["failed", "cancelled", "interrupted", "completed"]
    assert [run.invocation_id for run, _ in ends.told][1:3] == [
        cancelled.invocation_id,
        interrupted.invocation_id,
    ]
    for run, result in ends.told:
        assert (run.user_id, run.session_id, run.status) == ("u", "s", result.status)
    assert kinds(log).count("run_end_delivered") == kinds(log).count("run_ended") == 4
    assert log.index(UNDELIVERED) == []


def test_the_run_that_is_told_of_can_be_read() -> None:
    found: list[Any] = []

    def read(run: Run | RunRecord, result: RunResult) -> None:
        assert isinstance(run, Run)
        found.append(([event.text for event in run], [event.text for event in result.events]))

    with Runner(app_plugged(llm(), plugin(on_run_end=read)), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result()
    assert found == [(["hi", "ok"], ["hi", "ok"])]


def test_a_run_of_which_nothing_is_stored_has_no_end_to_be_told() -> None:
    ends, gate = Ends(), Gate()
    with Runner(
        app_plugged(Acting(gate), plugin(on_run_end=ends.on_run_end)), log=MemoryEventLog()
    ) as runner:
        first = runner.run(**KEY, message="wait").start()
        gate.arrived()
        waiting = runner.run(**KEY, message="wait").start()
        waiting.cancel()
        assert waiting.result().status is RunStatus.CANCELLED
        runner.run(**KEY, message="cold").cancel()
        gate.open()
        first.result()
    assert [run.invocation_id for run, _ in ends.told] == [first.invocation_id]


@pytest.mark.scenario("A23")
@pytest.mark.parametrize("interface", ["sync", "async"])
def test_a_consumer_that_breaks_out_leaves_one_end_that_is_told_and_no_after_run(interface: str) -> None:
    ends, after, gate = Ends(), list[str](), Gate()
    app = app_plugged(
        Acting(gate),
        plugin(on_run_end=ends.on_run_end, after_run_callback=doing(lambda: after.append("after"))),
    )
    with Runner(app, log=MemoryEventLog()) as runner:

        def break_out() -> Run:
            run = runner.run(**KEY, message="hi")
            for _ in run:
                break
            return run

        async def break_out_async() -> Run:
            run = runner.run(**KEY, message="hi")
            events = aiter(run)
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]  # what leaving the loop does at last
            return run

        run = break_out() if interface == "sync" else asyncio.run(break_out_async())
        assert ends.wait() == [RunStatus.CANCELLED]
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.CONSUMER_LOST
        gate.open()
        assert run.wait_terminated(30)
        assert runner.residual() == []
    assert (len(ends.told), after) == (1, [])


def test_nobody_waits_for_the_hook_and_the_next_run_begins_meanwhile() -> None:
    gate = Gate()
    with Runner(app_plugged(llm(), plugin(on_run_end=doing(gate.wait))), log=MemoryEventLog()) as runner:
        for _ in range(3):
            run = runner.run(**KEY, message="hi")
            assert run.answer(30) == "ok"
            assert run.wait_terminated(30)
        gate.arrived(3)
        gate.open()


def test_the_hook_may_run_the_same_session_again_and_wait_for_that() -> None:
    answers, done = [""], threading.Event()

    def again(run: Run | RunRecord, result: RunResult) -> None:
        if len(answers) == 1:
            answers.append("again")
            answers.append(runner.run(**KEY, message="again").answer(30))
            done.set()

    with Runner(app_plugged(llm(), plugin(on_run_end=again)), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer() == "ok"
        assert done.wait(30)
    assert answers == ["", "again", "ok"]


@BOTH_KINDS
def test_a_hook_that_raises_is_logged_counts_as_told_and_keeps_no_other_from_being_told(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ends, log = Ends(), MemoryEventLog()

    def poison(run: Run | RunRecord, result: RunResult) -> None:
        raise ValueError("poison")

    app = app_plugged(
        llm(),
        plugin("one", kind, on_run_end=poison),
        plugin("two", kind, on_run_end=ends.on_run_end),
    )
    with caplog.at_level(logging.ERROR, "intermission"), Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi")
        run.result()
    assert ends.wait() == ["completed"]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert (record.__dict__["session"], record.__dict__["invocation"]) == ("s", run.invocation_id)
    with Runner(app, log=log):
        pass
    assert (len(ends.told), log.index(UNDELIVERED)) == (1, [])


def test_a_close_waits_for_a_hook_within_its_grace_and_what_is_left_is_told_by_the_next_runner() -> None:
    gate, ends, log = Gate(), Ends(), MemoryEventLog()
    held = threading.Event()

    def slow(*_: Any) -> None:
        held.set()
        gate.wait()

    runner = Runner(app_plugged(llm(), plugin(on_run_end=slow)), log=log)
    runner.run(**KEY, message="hi").result()
    assert held.wait(30)
    runner.close(grace=0)
    assert [entry.key[:3] for entry in log.index(UNDELIVERED)] == [(APP, "u", "s")]
    with Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=log):
        assert ends.wait() == ["completed"]
    ((run, result),) = ends.told
    assert isinstance(run, RunRecord)
    assert run.replayed
    assert (result.text, [event.text for event in result.events]) == ("ok", ["hi", "ok"])
    assert log.index(UNDELIVERED) == []
    gate.open()


def test_an_async_hook_that_a_close_cancels_is_told_again() -> None:
    log, ends, begun = MemoryEventLog(), Ends(), threading.Event()

    async def slow(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    runner = Runner(app_plugged(llm(), plugin(on_run_end=slow)), log=log)
    runner.run(**KEY, message="hi").result()
    assert begun.wait(30)
    runner.close(grace=0)
    with Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=log):
        assert ends.wait() == ["completed"]


def test_an_end_that_another_runner_is_just_telling_is_left_to_it(tmp_path: Path) -> None:
    gate, ends = Gate(), Ends()
    with LmdbEventLog(tmp_path / "log", sync=False) as log:
        with Runner(app_plugged(llm(), plugin(on_run_end=doing(gate.wait))), log=log) as runner:
            runner.run(**KEY, message="hi").result()
            gate.arrived()
            with (
                LmdbEventLog(tmp_path / "log", sync=False) as other,
                Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=other),
            ):
                assert len(other.index(UNDELIVERED)) == 1
            assert ends.told == []
            gate.open()
        assert log.index(UNDELIVERED) == []


@pytest.mark.slow
def test_an_end_whose_process_was_killed_before_it_was_told_is_told_by_the_next(tmp_path: Path) -> None:
    bills = tmp_path / "bills"
    with Child("ending", tmp_path / "log", bills) as child:
        _, invocation_id = child.hear()
        child.kill()
    assert not bills.exists()
    with Child("ending", tmp_path / "log", bills) as child:
        told = {child.hear()[1], child.ask("go")[1]}
        child.tell("go")
        assert child.hear() == "closed"
        child.end()
    assert invocation_id in told
    assert set(bills.read_text().split()) == told
    ends = Ends()
    with (
        LmdbEventLog(tmp_path / "log", sync=False) as log,
        Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=log),
    ):
        assert log.index(UNDELIVERED) == []
    assert ends.told == []


def test_an_end_that_the_log_refused_is_told_and_not_again_when_it_is_stored_later() -> None:
    log, ends = FaultyLog(), Ends()
    log.refuse("run_ended", LogFullError("no room"))
    app = app_plugged(llm(), plugin(on_run_end=ends.on_run_end))
    with Runner(app, log=log) as runner:
        first = runner.run(**KEY, message="a")
        assert first.result().status is RunStatus.FAILED
        ends.wait(1)
        assert runner.run(**KEY, message="b").answer(30) == "ok"
        assert ends.wait(2) == ["failed", "completed"]
    with Runner(app, log=log):
        pass
    assert len(ends.told) == 2
    assert log.index(UNDELIVERED) == []


def test_the_end_of_a_run_whose_sessions_actor_died_is_told() -> None:
    gate, ends, log = Gate(), Ends(), MemoryEventLog()
    with Runner(app_plugged(Acting(gate), plugin(on_run_end=ends.on_run_end)), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (entry,) = runner._directory._sessions.values()  # pyright: ignore[reportPrivateUsage]  # no public way
        entry.ref.stop()
        assert run.result(30).status is RunStatus.FAILED
        assert ends.wait() == ["failed"]
        gate.open()
    assert log.index(UNDELIVERED) == []


def test_the_end_that_a_cancel_gives_to_a_run_of_a_dead_process_is_told_from_the_log() -> None:
    log, ends = MemoryEventLog(), Ends()
    with Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=log) as runner:
        runner.run(**KEY, message="hi").result()
        ends.wait(1)
        dead = MemoryEventLog(share=log)
        key = SessionKey(APP, "u", "s")
        dead.append(key.stream, [run_started("e-dead", 0.0)], claim=True, put=[open_run(key, "e-dead")])
        dead.close()
        assert runner.cancel(**KEY, reason="dead").accepted
        assert ends.wait(2) == ["completed", "cancelled"]
    run, result = ends.told[1]
    assert isinstance(run, RunRecord)
    assert (run.invocation_id, run.replayed, result.reason) == ("e-dead", True, "dead")


def test_a_session_that_was_deleted_meanwhile_is_not_written_back() -> None:
    gate, log = Gate(), MemoryEventLog()
    with Runner(app_plugged(llm(), plugin(on_run_end=doing(gate.wait))), log=log) as runner:
        runner.run(**KEY, message="hi").result()
        gate.arrived()
        assert runner.sessions.delete(**KEY)
        gate.open()
    assert records(log) == []
    assert log.index(UNDELIVERED) == []


def test_a_run_that_begins_while_the_end_before_it_is_marked_as_told_does_not_read_again() -> None:
    inner, ends = _Reads(), Ends()
    log = FaultyLog(inner)
    with Runner(app_plugged(llm(), plugin(on_run_end=ends.on_run_end)), log=log) as runner:
        runner.run(**KEY, message="first").result()
        until(lambda: kinds(inner).count("run_end_delivered") == 1)
        inner.reads.clear()
        gate = log.hold("run_end_delivered")
        runner.run(**KEY, message="second").result()
        gate.arrived()
        before, third = log.batches, runner.run(**KEY, message="third")
        third.begin()
        until(lambda: log.batches > before)
        gate.open()
        assert third.answer(30) == "ok"
        ends.wait(3)
        assert inner.reads == []
    assert kinds(inner).count("run_end_delivered") == 3


class _Reads(MemoryEventLog):
    """Keeps which streams are read from their beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> Any:
        """See `EventLog.read`."""
        if after == 0 and limit is None:
            self.reads.append(stream)
        return super().read(stream, after=after, limit=limit)


def test_the_log_of_an_app_without_the_hook_has_nothing_of_all_this() -> None:
    log = MemoryEventLog()
    with Runner(app_plugged(llm(), plugin(after_run_callback=doing(lambda: None))), log=log) as runner:
        runner.run(**KEY, message="hi").result()
    assert len(log.streams()) == 1
    assert kinds(log) == ["session_created", "run_started", "event", "event", "run_ended"]
