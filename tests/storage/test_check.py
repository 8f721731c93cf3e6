import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest

from intermission_storage import (
    EventLog,
    Kind,
    LmdbEventLog,
    LogClosedError,
    MemoryEventLog,
    Record,
    export,
    verify,
)


@pytest.fixture(params=["memory", "lmdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return MemoryEventLog() if request.param == "memory" else LmdbEventLog(tmp_path / "log")


def event(number: int) -> Record:
    return Record(Kind.EVENT, {"number": number, "raw": b"\x00\xff"})


def test_a_sound_log_has_no_problems_and_its_records_are_counted(log: EventLog) -> None:
    with log:
        for stream in ("a", "b", "\ud800"):
            for number in range(3):
                log.append(stream, [event(number), event(number)])
        report = verify(log)

    assert (report.streams, report.records, report.problems) == (3, 18, ())


def test_an_empty_log_is_sound(log: EventLog) -> None:
    with log:
        assert verify(log).problems == ()


def test_a_closed_log_cannot_be_verified(log: EventLog) -> None:
    log.close()
    with pytest.raises(LogClosedError):
        verify(log)


def test_a_gap_in_the_numbers_is_named() -> None:
    class Gap(MemoryEventLog):
        def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
            return [record for record in super().read(stream, after=after, limit=limit) if record.seq != 2]

    with Gap() as log:
        log.append("a", [event(1), event(2), event(3)])
        assert verify(log).problems == ("stream 'a': record 3 follows record 1",)


def test_a_stream_that_ends_too_early_is_named() -> None:
    class Short(MemoryEventLog):
        def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
            return super().read(stream, after=after, limit=limit)[: 2 - after if after < 2 else 0]

    with Short() as log:
        log.append("a", [event(1), event(2), event(3)])
        assert verify(log).problems == ("stream 'a' stands at 3, but ends with record 2",)


def test_export_gives_a_line_for_each_record_in_order(log: EventLog) -> None:
    with log:
        log.append("a", [event(1), event(2)])
        log.append("a", [Record(Kind.ANSWER, {"half": "\u00e9"})])
        lines = [json.loads(line) for line in export(log)]

    raw = {"$bytes": base64.b64encode(b"\x00\xff").decode()}
    assert lines == [
        {"stream": "a", "seq": 1, "kind": "event", "data": {"number": 1, "raw": raw}},
        {"stream": "a", "seq": 2, "kind": "event", "data": {"number": 2, "raw": raw}},
        {"stream": "a", "seq": 3, "kind": "answer", "data": {"half": "\u00e9"}},
    ]


def exported(log: EventLog, data: dict[str, Any]) -> Any:
    """Return what becomes of a record's data, read by a parser that knows JSON only."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    log.append("a", [Record(Kind.EVENT, data)])
    *_, line = export(log)
    return json.loads(line, parse_constant=refuse)["data"]


def test_export_of_infinite_floats_is_json(log: EventLog) -> None:
    with log:
        data = exported(log, {"x": math.inf, "y": [-math.inf, 1.5]})

    assert data == {"x": {"$float": "inf"}, "y": [{"$float": "-inf"}, 1.5]}


@pytest.mark.parametrize("name", ["$bytes", "$float", "$dict", "$"])
def test_export_marks_a_dict_that_could_be_taken_for_something_else(log: EventLog, name: str) -> None:
    with log:
        marked = exported(log, {"x": {name: b"abc"}, "y": {name: 1, "z": 2}})
        whole = exported(log, {name: {name: 1}})

    assert marked == {"x": {"$dict": {name: {"$bytes": "YWJj"}}}, "y": {name: 1, "z": 2}}
    assert whole == {"$dict": {name: {"$dict": {name: 1}}}}


def test_export_takes_data_as_deeply_nested_as_a_log_does(log: EventLog) -> None:
    data: dict[str, Any] = {}
    for _ in range(490):
        data = {"x": data}
    with log:
        assert exported(log, data) == data
