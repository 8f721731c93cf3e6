"""One session that cannot be read any more keeps nobody else from being recovered, and can be ended."""

import threading
from pathlib import Path
from typing import Any

import pytest

from apps import APP
from failpoints import Diary, Points
from intermission import CancelOutcome, Plugin, Runner, RunRecord, RunResult, RunStatus
from intermission.keys import SessionKey
from intermission.sessions.records import OPEN_RUNS, UNDELIVERED, undelivered
from intermission_storage import LmdbEventLog, LogCorruptError
from left import damage, left
from nursery import KILLED, Nursery
from planned import planned_app
from pools import until

SESSIONS = 20
PLACES = [
    f"{place} #{number + 1}"
    for place in (
        "after agent is asked",
        "before the effect of tool_0",
        "after the effect of tool_1",
        "before the effect of tool_2",
    )
    for number in range(SESSIONS // 4)
]
BAD: dict[str, Any] = {"user_id": "u", "session_id": "s7"}


class Told(Plugin):
    """Keeps which ends it was told of."""

    def __init__(self) -> None:
        super().__init__("told")
        self.ends: dict[str, tuple[RunStatus, str]] = {}
        self.replayed: set[str] = set()
        self.changed = threading.Condition()

    def on_run_end(self, run: Any, result: RunResult) -> None:
        """See `Plugin`."""
        with self.changed:
            self.ends[run.session_id] = (result.status, type(result.error).__name__)
            if isinstance(run, RunRecord):
                self.replayed.add(run.session_id)
            self.changed.notify_all()


@pytest.mark.scenario("C14")
def test_nineteen_sessions_are_recovered_beside_one_that_cannot_be_read_and_that_one_is_ended_by_force(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("tools", tmp_path, plenty=SESSIONS, crowd=PLACES) == KILLED
    diary, told = Diary(tmp_path), Told()
    damage(tmp_path / "log", "u", "s7")
    app = planned_app(diary, Points(diary), plugins=[told])
    with Runner(app, log=tmp_path / "log") as runner:
        report = runner.recover_all(max_parallel=4)
        assert len(report.continued) == SESSIONS - 1
        assert {one.result.status for one in report.continued} == {RunStatus.COMPLETED}
        assert [(one.session_id, type(one.result.error)) for one in report.failed] == [
            ("s7", LogCorruptError)
        ]
        assert report.elsewhere == ()
        assert left(runner) == ["s7"]  # it can be seen
        receipt = runner.cancel(**BAD, reason="cannot be read")
        assert (receipt.outcome, receipt.durable) == (CancelOutcome.ACCEPTED, True)
        assert left(runner) == []
        assert runner.cancel(**BAD).outcome is CancelOutcome.NOTHING_RUNNING
        until(lambda: len(told.ends) == SESSIONS)
        assert told.ends["s7"] == (RunStatus.FAILED, "LogCorruptError")
        assert told.replayed == {"s7"}
        assert runner.sessions.delete(**BAD)
        assert runner.run(**BAD, message="go").result(60).status is RunStatus.COMPLETED
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.index(OPEN_RUNS, (APP,)) == log.index(UNDELIVERED, (APP,)) == []
        assert [log.head(stream).claim for stream in log.streams()] == [None] * SESSIONS


def test_an_end_that_cannot_be_read_keeps_no_other_from_being_told(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery.live("tools", tmp_path, plenty=SESSIONS) == 0
    diary, told = Diary(tmp_path), Told()
    with LmdbEventLog(tmp_path / "log") as log:
        for stream in log.streams():
            key = SessionKey(APP, "u", stream.rpartition("/")[2])
            ids = {record.data["invocationId"] for record in log.read(stream, after=1)}
            log.append(stream, [], put=[undelivered(key, ids.pop(), 1, "a dead runner")])
    damage(tmp_path / "log", "u", "s7")
    with Runner(planned_app(diary, Points(diary), plugins=[told]), log=tmp_path / "log"):
        until(lambda: len(told.ends) == SESSIONS)
    assert told.ends.pop("s7") == (RunStatus.FAILED, "LogCorruptError")
    assert set(told.ends.values()) == {(RunStatus.COMPLETED, "NoneType")}
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.index(UNDELIVERED, (APP,)) == []
