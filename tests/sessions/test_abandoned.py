"""What becomes of a session's claim when its actor stops in the middle of something."""

from typing import Any

import pytest

from apps import KEY, app_with, kinds, records, runs_in_order
from intermission import Run, Runner, RunStatus, SessionClosedError
from intermission.sessions.records import OPEN_RUNS
from intermission.testing import FaultyLog, ScriptedModel
from intermission_storage import LogFullError, MemoryEventLog
from pools import until
from races import at_once
from scale import rounds

WHOLE = ["run_started", "event", "run_ended"]


def actor_of(runner: Runner) -> Any:
    """The reference of the only session's actor; there is no public way to it."""
    (entry,) = runner._directory._sessions.values()  # pyright: ignore[reportPrivateUsage]  # see above
    return entry.ref


def stop(runner: Runner) -> None:
    """Stop the actor of the only session, and wait until it has."""
    ref = actor_of(runner)
    ref.stop()
    until(lambda: not ref.is_alive())


def assert_over(run: Run) -> None:
    """Assert that a run has failed because its session stopped."""
    with pytest.raises(SessionClosedError, match="stopped"):
        run.result(30)
    assert run.status is RunStatus.FAILED


@pytest.fixture
def inner() -> MemoryEventLog:
    """The log behind the one with faults."""
    return MemoryEventLog()


def test_a_beginning_that_is_stored_after_its_actor_has_stopped_gets_its_end_and_frees_the_session(
    inner: MemoryEventLog,
) -> None:
    log, model = FaultyLog(inner), ScriptedModel(default="ok")
    gate = log.hold(1)
    with Runner(app_with(model), log=log) as runner:
        run = runner.run(**KEY, message="a")
        run.begin()
        gate.arrived()
        stop(runner)
        gate.open()
        assert_over(run)
        assert kinds(log) == ["session_created", *WHOLE]
        assert records(log)[-1].data["status"] == "failed"
        assert log.index(OPEN_RUNS) == []
        assert model.requests == []
        with Runner(app_with(model), log=MemoryEventLog(share=inner)) as other:
            assert other.run(**KEY, message="b").answer(30) == "ok"
        assert runner.run(**KEY, message="c").answer(30) == "ok"
    assert len(runs_in_order(log)) == 3


def test_the_run_after_it_waits_for_that_end_and_is_not_refused(inner: MemoryEventLog) -> None:
    log = FaultyLog(inner)
    gate = log.hold(1)
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="a")
        run.begin()
        gate.arrived()
        stop(runner)
        before = log.batches
        second = runner.run(**KEY, message="b")
        second.begin()
        until(lambda: log.batches > before)  # its beginning stands behind the other one
        gate.open()
        assert_over(run)
        assert second.answer(30) == "ok"
    assert len(runs_in_order(log)) == 2


def test_a_stop_of_the_actor_that_meets_the_commit_of_a_beginning_leaves_the_session_free() -> None:
    for _ in range(rounds(50, 500)):
        inner = MemoryEventLog()
        log = FaultyLog(inner)
        gate = log.hold(1)
        with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
            run = runner.run(**KEY, message="a")
            run.begin()
            gate.arrived()
            at_once(gate.open, actor_of(runner).stop)
            assert run.wait_terminated(30)
            assert run.status in {RunStatus.FAILED, RunStatus.COMPLETED}
            with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(share=inner)) as other:
                assert other.run(**KEY, message="b").answer(30) == "ok"
        assert len(runs_in_order(log)) == 2


def test_a_beginning_that_is_refused_after_its_actor_has_stopped_leaves_no_record(
    inner: MemoryEventLog,
) -> None:
    log = FaultyLog(inner)
    gate = log.hold(1)
    log.refuse(1, LogFullError("no room"))
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="a")
        run.begin()
        gate.arrived()
        stop(runner)
        gate.open()
        assert_over(run)
        assert log.streams() == []
        assert runner.run(**KEY, message="b").answer(30) == "ok"


def test_an_end_that_is_owed_when_the_actor_stops_is_tried_once_more() -> None:
    log = FaultyLog()
    log.refuse("run_ended", LogFullError("no room"))
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        assert runner.run(**KEY, message="a").result(30).status is RunStatus.FAILED
        assert log.index(OPEN_RUNS) != []
        stop(runner)
        assert runner.run(**KEY, message="b").answer(30) == "ok"
    assert len(runs_in_order(log)) == 2
