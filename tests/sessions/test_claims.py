"""A session and who has it: one run at a time, of whatever process or runner."""

from pathlib import Path

import pytest

from apps import APP, KEY, app_with, records, runs_in_order
from children import Child
from intermission import (
    Runner,
    RunStatus,
    SessionBusyError,
)
from intermission.runs.receipt import CancelOutcome
from intermission.runs.result import Verdict
from intermission.sessions.records import OPEN_RUNS, SESSIONS, run_ended, run_started
from intermission.testing import FaultyLog, Gate, ScriptedModel, text
from intermission_storage import ClaimedError, LmdbEventLog, LogFullError, MemoryEventLog, StaleClaimError
from scale import rounds


def test_a_session_with_a_run_under_way_is_refused_to_everybody_else_by_the_name_of_its_owner() -> None:
    gate, log = Gate(), MemoryEventLog()
    other_log, model = MemoryEventLog(share=log), ScriptedModel("mine")
    with (
        Runner(app_with(ScriptedModel(text(gate, "one"))), log=log) as runner,
        Runner(app_with(model), log=other_log) as other,
    ):
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        with pytest.raises(SessionBusyError, match="has a run under way") as busy:
            other.run(**KEY, message="b").start()
        with pytest.raises(ClaimedError):
            other_log.append(log.streams()[0], [records(log)[-1]])
        before = len(records(log))
        gate.open()
        assert run.answer(30) == "one"
        assert other.run(**KEY, message="c").answer(30) == "mine"

    assert busy.value.owner == log.owner
    assert before == 3
    assert len(runs_in_order(log)) == 2
    assert len(model.requests) == 1


def test_a_run_whose_session_was_taken_over_fails_and_stores_nothing_more() -> None:
    gate, log = Gate(), MemoryEventLog()
    other = MemoryEventLog(share=log)
    with Runner(app_with(ScriptedModel(text(gate, "one"), "two")), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        stream = log.streams()[0]
        taken = other.append(stream, [run_started("e-other", 0.0)], claim=True, take_over=True)
        gate.open()
        with pytest.raises(StaleClaimError):
            run.answer(30)
        assert run.result().last_seq is None
        assert [record.seq for record in records(log)] == [1, 2, 3, 4]
        with pytest.raises(SessionBusyError):
            runner.run(**KEY, message="b").start()
        end = run_ended("e-other", Verdict(RunStatus.COMPLETED), 0.0)
        other.append(stream, [end], token=taken.token, release=True)
        assert runner.run(**KEY, message="b").answer(30) == "two"


@pytest.mark.scenario("D2")
def test_runs_of_two_processes_in_one_session_are_whole_or_refused_as_busy(tmp_path: Path) -> None:
    path, turns = tmp_path / "log", str(rounds(50, 500))
    with LmdbEventLog(path):
        pass
    with Child("taking_turns", path, "a", turns) as a, Child("taking_turns", path, "b", turns) as b:
        assert [a.hear(), b.hear()] == ["inside", "SessionBusyError"]  # a's first run is under way
        for child in (a, b):
            child.tell("go on")
        answers = [a.hear(), b.hear()]
        a.end()
        b.end()
    with LmdbEventLog(path) as log:
        stored = records(log)
        assert len(runs_in_order(log)) == 2 * int(turns) + 1
    assert answers == [["ok"] * int(turns)] * 2
    assert [record.seq for record in stored] == list(range(1, len(stored) + 1))
    said = [record.data["content"]["parts"][0]["text"] for record in stored if record.kind == "event"]
    assert said[1::2] == ["ok"] * (2 * int(turns) + 1)
    for name in "ab":
        mine = [text for text in said[::2] if text.startswith(name)]
        assert mine[-int(turns) :] == [f"{name} {number}" for number in range(int(turns))]


def test_an_end_that_could_not_be_stored_is_stored_before_the_next_run() -> None:
    log = FaultyLog()
    log.refuse("run_ended", LogFullError("no room"))
    with Runner(app_with(ScriptedModel("one", "two")), log=log) as runner:
        first = runner.run(**KEY, message="a")
        assert first.result().last_seq is None
        assert log.head(log.streams()[0]).claim is not None
        assert runner.run(**KEY, message="b").answer(30) == "two"

    assert runs_in_order(log)[0] == first.invocation_id
    ends = [record.data for record in records(log) if record.kind == "run_ended"]
    assert [end["status"] for end in ends] == ["failed", "completed"]
    assert ends[0]["error"] == {"type": "LogFullError", "message": "no room"}


def test_a_run_that_has_no_end_yet_stands_in_the_index_of_open_runs() -> None:
    gate, log = Gate(), MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "one"))), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        assert [entry.key for entry in log.index(OPEN_RUNS)] == [(APP, "u", "s", run.invocation_id)]
        gate.open()
        run.result(30)
        assert log.index(OPEN_RUNS) == []
        assert [entry.key for entry in log.index(SESSIONS)] == [(APP, "u", "s")]


def test_a_run_that_was_released_can_be_cancelled_once_by_another_runner() -> None:
    gate, log = Gate(), MemoryEventLog()
    runner = Runner(app_with(ScriptedModel(text(gate, "one"))), log=log)
    run = runner.run(**KEY, message="a").start()
    gate.arrived()
    runner.close(grace=0, runs="release")
    gate.open()
    assert [entry.key for entry in log.index(OPEN_RUNS)] == [(APP, "u", "s", run.invocation_id)]
    with Runner(app_with(ScriptedModel()), log=MemoryEventLog(share=log)) as other:
        receipts = [other.cancel(**KEY), other.cancel(**KEY, invocation_id=run.invocation_id, take_over=True)]
        statuses = [one.status for one in other.sessions.runs(**KEY)]

    assert run.result(0).status == RunStatus.INTERRUPTED
    outcomes = [receipt.outcome for receipt in receipts]
    assert outcomes == [CancelOutcome.ACCEPTED, CancelOutcome.NOTHING_RUNNING]
    assert statuses == [RunStatus.CANCELLED]
    assert log.index(OPEN_RUNS) == []


def test_runners_that_take_turns_on_one_session_do_not_get_into_each_others_way() -> None:
    log, model = MemoryEventLog(), ScriptedModel(default="ok")
    with Runner(app_with(model), log=log) as one, Runner(app_with(model), log=log) as other:
        for number in range(3):
            assert one.run(**KEY, message=f"one {number}").answer(30) == "ok"
            assert other.run(**KEY, message=f"other {number}").answer(30) == "ok"

    assert len(runs_in_order(log)) == 6
    assert len(model.requests[-1].contents) == 11


def test_a_session_that_was_deleted_and_made_anew_is_not_run_with_the_deleted_conversation() -> None:
    log = MemoryEventLog()
    first, second = ScriptedModel("noted", "what?"), ScriptedModel("hello")
    with (
        Runner(app_with(first), log=log) as runner,
        Runner(app_with(second), log=MemoryEventLog(share=log)) as other,
    ):
        runner.run(**KEY, message="my PIN is 1234").result(30)
        log.delete(log.streams()[0])
        other.run(**KEY, message="fresh start").result(30)
        runner.run(**KEY, message="what do you know?").result(30)

    said = [content.text for content in first.requests[-1].contents]
    assert said == ["fresh start", "hello", "what do you know?"]


def test_an_end_that_is_owed_by_a_session_that_was_taken_over_meanwhile_stops_no_run() -> None:
    inner = MemoryEventLog()
    log, other = FaultyLog(inner), MemoryEventLog(share=inner)
    log.refuse("run_ended", LogFullError("no room"))
    with Runner(app_with(ScriptedModel("one", "two")), log=log) as runner:
        runner.run(**KEY, message="a").result(30)
        stream = log.streams()[0]
        taken = other.append(stream, [run_started("e-other", 0.0)], claim=True, take_over=True)
        end = run_ended("e-other", Verdict(RunStatus.COMPLETED), 0.0)
        other.append(stream, [end], token=taken.token, release=True)
        assert runner.run(**KEY, message="b").answer(30) == "two"
