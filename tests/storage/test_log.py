"""What every event log keeps to, in memory and on disk."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scale
from intermission_storage import (
    ConflictError,
    EncodingError,
    EventLog,
    LmdbEventLog,
    LogClosedError,
    MemoryEventLog,
    Record,
)

NAMES = ["", " ", "a/b\0c", "\ud800", "é", "e\u0301", "𝄞", "x" * 100_000, "x" * 100_001]


def memory(_: Path) -> EventLog:
    return MemoryEventLog()


def lmdb(path: Path) -> EventLog:
    return LmdbEventLog(path)


@pytest.fixture(params=[memory, lmdb])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventLog]:
    create: Callable[[Path], EventLog] = request.param
    with create(tmp_path / "log") as log:
        yield log


def event(number: object) -> Record:
    return Record("event", {"number": number})


def append(log: EventLog, stream: str, count: int) -> None:
    """Append `count` records in one batch, numbered as their data says."""
    last = log.position(stream)
    log.append(stream, last, [event(number) for number in range(last + 1, last + count + 1)])


def test_records_are_numbered_from_one_in_their_order(log: EventLog) -> None:
    assert log.append("s", 0, [event(1), event(2)]) == 2
    assert log.append("s", 2, [event(3)]) == 3
    assert log.read("s") == [Record("event", {"number": seq}, seq) for seq in (1, 2, 3)]
    assert log.position("s") == 3


def test_the_number_that_a_record_brings_along_is_ignored(log: EventLog) -> None:
    log.append("s", 0, [Record("event", {}, seq=99)])
    assert [record.seq for record in log.read("s")] == [1]


def test_streams_are_numbered_apart(log: EventLog) -> None:
    append(log, "a", 3)
    append(log, "b", 2)
    assert (log.position("a"), log.position("b")) == (3, 2)
    assert sorted(log.streams()) == ["a", "b"]


def test_an_unknown_stream_is_empty_and_stays_unknown(log: EventLog) -> None:
    assert log.read("unknown") == []
    assert log.position("unknown") == 0
    assert log.streams() == []


@pytest.mark.parametrize("expected", [0, 1, 3, -1])
def test_an_append_at_the_wrong_number_is_refused(log: EventLog, expected: int) -> None:
    append(log, "s", 2)
    before = log.read("s")
    with pytest.raises(ConflictError) as refusal:
        log.append("s", expected, [event(3)])
    assert (refusal.value.stream, refusal.value.expected, refusal.value.actual) == ("s", expected, 2)
    assert log.read("s") == before


def test_a_refused_first_append_leaves_no_stream(log: EventLog) -> None:
    with pytest.raises(ConflictError):
        log.append("s", 1, [event(1)])
    assert log.streams() == []
    assert log.append("s", 0, [event(1)]) == 1


def test_a_batch_with_one_bad_record_is_refused_as_a_whole(log: EventLog) -> None:
    append(log, "s", 1)
    with pytest.raises(EncodingError) as refusal:
        log.append("s", 1, [event(2), event([1, {"x": (1,)}])])
    assert refusal.value.path == "data.number[1].x"
    assert log.position("s") == 1
    assert log.append("s", 1, [event(2)]) == 2


def test_an_append_of_nothing_is_an_error(log: EventLog) -> None:
    with pytest.raises(ValueError, match="at least one record"):
        log.append("s", 0, [])


@pytest.mark.parametrize("after", [0, 1, 4, 5, 6, 2**40])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 5, 2**40])
def test_a_page_holds_the_records_after_a_number(log: EventLog, after: int, limit: int | None) -> None:
    append(log, "s", 5)
    append(log, "t", 5)
    end = 5 if limit is None else min(5, after + limit)
    assert [record.seq for record in log.read("s", after=after, limit=limit)] == list(
        range(after + 1, end + 1)
    )


def test_pages_put_together_are_the_stream(log: EventLog) -> None:
    append(log, "s", 10)
    pages: list[Record] = []
    while page := log.read("s", after=len(pages), limit=3):
        pages += page
    assert pages == log.read("s")


@pytest.mark.parametrize("bounds", [{"after": -1}, {"limit": -1}])
def test_a_page_with_negative_bounds_is_an_error(log: EventLog, bounds: dict[str, int]) -> None:
    append(log, "s", 2)
    with pytest.raises(ValueError, match="negative"):
        log.read("s", **bounds)


def test_what_was_read_or_appended_is_not_tied_to_the_log(log: EventLog) -> None:
    data: dict[str, Any] = {"items": [1]}
    log.append("s", 0, [Record("event", data)])
    data["items"].append(2)
    log.read("s")[0].data["items"].append(3)
    assert log.read("s")[0].data == {"items": [1]}


def test_any_text_is_the_name_of_a_stream(log: EventLog) -> None:
    for number, name in enumerate(NAMES):
        log.append(name, 0, [event(number)])
    assert sorted(log.streams()) == sorted(NAMES)
    assert [log.read(name)[0].data["number"] for name in NAMES] == list(range(len(NAMES)))


def test_random_appends_are_read_as_they_were_written(log: EventLog) -> None:
    examples = itertools.count()

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.binary(), min_size=1)), max_size=5))
    def check(batches: list[tuple[str, list[bytes]]]) -> None:
        example = next(examples)  # one log for all examples, so each has its own streams
        written: dict[str, list[bytes]] = {}
        for name, values in batches:
            known = written.setdefault(f"{example}{name}", [])
            log.append(f"{example}{name}", len(known), [event(value) for value in values])
            known += values
        for stream, values in written.items():
            expected = [Record("event", {"number": value}, seq) for seq, value in enumerate(values, 1)]
            assert log.read(stream) == expected

    check()


def test_a_closed_log_refuses_every_call(log: EventLog) -> None:
    append(log, "s", 1)
    log.close()
    calls: list[Callable[[], object]] = [
        lambda: log.append("s", 1, [event(2)]),
        lambda: log.read("s"),
        lambda: log.position("s"),
        log.streams,
    ]
    for call in calls:
        with pytest.raises(LogClosedError):
            call()


def test_closing_twice_is_allowed(log: EventLog) -> None:
    log.close()
    log.close()


def test_a_log_may_be_closed_while_threads_use_it(log: EventLog) -> None:
    threads = 8
    at_work = Barrier(threads + 1, timeout=30)

    def use(number: int) -> int:
        appended = 0
        try:
            while True:
                append(log, f"s{number}", 1)
                appended += 1
                assert len(log.read(f"s{number}")) == appended
                if appended == 3:
                    at_work.wait()
        except LogClosedError:
            return appended

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(use, number) for number in range(threads)]
        at_work.wait()
        log.close()
        assert all(future.result(timeout=30) >= 3 for future in futures)


def test_threads_append_to_many_streams_at_once(log: EventLog) -> None:
    threads, rounds = 8, scale.rounds(10, 200)
    start = Barrier(threads, timeout=30)

    def write(number: int) -> None:
        start.wait()
        for _ in range(rounds):
            append(log, f"s{number}", 2)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads), timeout=300))
    for number in range(threads):
        records = log.read(f"s{number}")
        assert [(it.seq, it.data["number"]) for it in records] == [(n, n) for n in range(1, 2 * rounds + 1)]


def test_of_threads_that_append_at_one_number_one_wins(log: EventLog) -> None:
    threads, rounds = 8, scale.rounds(10, 200)
    start = Barrier(threads, timeout=30)

    def race(thread: int) -> list[int]:
        won: list[int] = []
        for number in range(rounds):
            start.wait()
            try:
                log.append("s", number, [event(thread)])
                won.append(number)
            except ConflictError as error:
                assert error.actual == number + 1  # noqa: PT017  # a loser sees the winner's record
            start.wait()
        return won

    with ThreadPoolExecutor(threads) as pool:
        wins = list(pool.map(race, range(threads), timeout=300))
    assert sorted(number for won in wins for number in won) == list(range(rounds))
    assert [record.data["number"] for record in log.read("s")] == [
        next(thread for thread in range(threads) if number in wins[thread]) for number in range(rounds)
    ]
