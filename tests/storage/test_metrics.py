"""What a log counts of its commits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commits import Outcomes, hold
from intermission.testing import FaultyLog
from intermission_storage import (
    ConflictError,
    EventLog,
    Histogram,
    Kind,
    LmdbEventLog,
    Measured,
    MemoryEventLog,
    Record,
)

LOGS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryEventLog(),
    "lmdb": lambda path: LmdbEventLog(path / "log"),
}


def record() -> Record:
    """A record."""
    return Record(Kind.EVENT, {})


@pytest.mark.parametrize("kind", LOGS)
def test_what_was_committed_and_what_was_refused_is_counted(kind: str, tmp_path: Path) -> None:
    with LOGS[kind](tmp_path) as log:
        log.append("a", [record(), record()])
        log.append("b", [record()], also={"c": [record()]})
        with pytest.raises(ConflictError):
            log.append("a", [record()], expected=7)
        log.delete("a")
        found = log.metrics()
        assert (found["log_appends_total"], found["log_refused_total"], found["log_records_total"]) == (
            3,
            1,
            4,
        )
        assert found["log_commits_total"] == found["log_commit_seconds"]["count"] >= 3
        assert found["log_waiting"] == 0


def test_what_waits_together_is_one_commit_of_so_many_batches(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        gate, outcomes = hold(log), Outcomes()
        for number in range(5):
            log.submit(f"stream {number}", [record()], outcomes.of(number))
        assert log.metrics()["log_waiting"] == 5
        gate.open()
        log.append("last", [record()])
        sizes = log.metrics()["log_batches_per_commit"]
        assert (sizes["max"], sizes["count"]) in {(5, 3), (6, 2)}
        assert sizes["sum"] == 7


def test_logs_of_one_path_in_one_process_count_together_and_a_reader_may_ask(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as one, LmdbEventLog(tmp_path / "log") as other:
        one.append("a", [record()])
        other.append("a", [record()])
        assert one.metrics()["log_appends_total"] == other.metrics()["log_appends_total"] == 2
    with LmdbEventLog(tmp_path / "log", read_only=True) as reader:
        assert reader.metrics()["log_commits_total"] == 0


def test_no_log_has_to_count() -> None:
    log: EventLog = FaultyLog()
    assert not isinstance(log, Measured)
    log.close()
    memory: EventLog = MemoryEventLog()
    assert isinstance(memory, Measured)


def test_a_histogram_counts_what_is_up_to_each_of_its_bounds() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 2, 3, 9):
        histogram.observe(value)
    assert histogram.snapshot() == {
        "count": 6,
        "sum": 17.0,
        "max": 9,
        "buckets": {"1": 2, "2": 4, "4": 5, "+Inf": 6},
    }
