"""`FaultyLog` has the faults that it is asked for, and no others."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from intermission.testing import FaultyLog, Gate
from intermission_storage import (
    Appended,
    EncodingError,
    EventLog,
    IndexEntry,
    Kind,
    LogClosedError,
    LogFullError,
    MemoryEventLog,
    Record,
    StorageError,
)
from intermission_storage.testing.background import Background
from intermission_storage.testing.contract import EventLogContract, Harness

Outcome = Appended | StorageError


class Told:
    """A `done` that keeps what it was told; `wait` returns it when it has been told something."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self._event = threading.Event()

    def __call__(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._event.set()

    def wait(self) -> Outcome:
        assert self._event.wait(30)
        return self.outcomes[0]


def event(text: str, kind: Kind = Kind.EVENT) -> Record:
    return Record(kind, {"text": text})


def texts(log: EventLog, stream: str = "s") -> list[str]:
    return [record.data["text"] for record in log.read(stream)]


@pytest.fixture
def inner() -> Iterator[MemoryEventLog]:
    with MemoryEventLog() as log:
        yield log


@pytest.fixture
def log(inner: MemoryEventLog) -> Iterator[FaultyLog]:
    with FaultyLog(MemoryEventLog(share=inner)) as log:
        yield log


class FaultyHarness(Harness):
    def __init__(self) -> None:
        self.memory = MemoryEventLog()

    def open(self) -> EventLog:
        return FaultyLog(MemoryEventLog(share=self.memory))


class TestFaultyLogWithoutFaults(EventLogContract):
    @pytest.fixture
    def harness(self) -> Harness:
        return FaultyHarness()


def test_a_batch_is_held_at_its_gate_and_submit_returns_meanwhile(
    log: FaultyLog, inner: MemoryEventLog
) -> None:
    gate, told = log.hold(Kind.ANSWER), Told()
    log.submit("s", [event("a", Kind.ANSWER)], told)
    gate.arrived()
    assert (inner.streams(), told.outcomes) == ([], [])
    gate.open()
    assert told.wait() == Appended(1, None)
    assert texts(inner) == ["a"]


def test_an_append_waits_at_the_gate(log: FaultyLog, inner: MemoryEventLog) -> None:
    gate = log.hold(Kind.EVENT)
    append = Background(lambda: log.append("s", [event("a")]))
    gate.arrived()
    assert inner.streams() == []
    gate.open()
    assert append.result() == Appended(1, None)


def test_what_comes_behind_a_held_batch_keeps_its_order_and_other_streams_go_on(
    log: FaultyLog, inner: MemoryEventLog
) -> None:
    gate, told = log.hold(1), [Told() for _ in range(10)]
    for number, done in enumerate(told):
        log.submit("s", [event(str(number))], done)
    assert log.append("t", [event("x")]) == Appended(1, None)
    assert inner.streams() == ["t"]
    gate.open()
    assert [done.wait() for done in told] == [Appended(number, None) for number in range(1, 11)]
    assert texts(inner) == [str(number) for number in range(10)]


def test_a_fault_looks_at_the_last_record_the_count_or_what_the_test_likes(log: FaultyLog) -> None:
    def in_t_with_two(stream: str, records: Sequence[Record]) -> bool:
        return stream == "t" and len(records) == 2

    error = LogFullError("no room")
    for where in (Kind.ANSWER, 3, in_t_with_two):
        log.refuse(where, error)
    outcomes: list[object] = []
    batches: list[tuple[str, list[Record]]] = [
        ("s", [event("1", Kind.ANSWER), event("1")]),
        ("s", [event("2"), event("2", Kind.ANSWER)]),
        ("s", [event("3")]),
        ("s", [event("4", Kind.ANSWER)]),
        ("t", [event("5")]),
        ("t", [event("6"), event("6")]),
        ("t", [event("7"), event("7")]),
    ]
    for stream, records in batches:
        log.submit(stream, records, outcomes.append)
    assert [outcome is error for outcome in outcomes] == [False, True, True, False, False, True, False]
    assert log.batches == 7
    assert texts(log) == ["1", "1", "4"]


def test_batches_are_counted_from_when_the_fault_was_asked_for(log: FaultyLog) -> None:
    log.append("s", [event("a")])
    log.refuse(2, LogFullError("no room"))
    log.append("s", [event("b")])
    with pytest.raises(LogFullError):
        log.append("s", [event("c")])
    assert log.append("s", [event("d")]) == Appended(3, None)
    with pytest.raises(ValueError, match="the next one is 1"):
        log.refuse(0, LogFullError("no room"))


def test_an_error_that_is_none_of_a_log_is_raised_by_the_call(log: FaultyLog) -> None:
    log.refuse(1, ZeroDivisionError())
    log.refuse(2, ZeroDivisionError())
    told = Told()
    with pytest.raises(ZeroDivisionError):
        log.submit("s", [event("a")], told)
    with pytest.raises(ZeroDivisionError):
        log.append("s", [event("a")])
    assert told.outcomes == []
    assert log.streams() == []


def test_a_batch_may_be_held_and_then_refused(log: FaultyLog) -> None:
    for number, error in enumerate([LogFullError("no room"), ZeroDivisionError("x")]):
        gate, told = log.hold(1), Told()
        log.refuse(1, error)
        log.submit(str(number), [event("a")], told)
        gate.arrived()
        assert told.outcomes == []
        gate.open()
        assert type(told.wait()) is (LogFullError if number == 0 else StorageError)
    assert log.streams() == []


def test_what_a_log_would_not_take_is_refused_at_once_and_counts_for_no_fault(log: FaultyLog) -> None:
    log.hold(1).open()
    log.refuse(1, LogFullError("no room"))
    told = Told()
    with pytest.raises(EncodingError):
        log.submit("s", [Record(Kind.EVENT, {"x": {1}})], told)
    with pytest.raises(ValueError, match="needs a record"):
        log.submit("s", [], told)
    with pytest.raises(LogFullError):
        log.append("s", [event("a")])
    assert (told.outcomes, log.batches) == ([], 1)


def test_a_deletion_waits_for_what_is_held_before_it(log: FaultyLog, inner: MemoryEventLog) -> None:
    gate = log.hold(1)
    log.submit("s", [event("a")], Told())
    deletion = Background(lambda: log.delete("s"))
    gate.open()
    assert deletion.result() is True
    assert inner.streams() == []


def test_closing_commits_what_is_held(log: FaultyLog, inner: MemoryEventLog) -> None:
    gate, told = log.hold(1), Told()
    log.submit("s", [event("a")], told)
    closing = Background(log.close)
    gate.open()
    closing.result()
    assert told.outcomes == [Appended(1, None)]
    assert texts(inner) == ["a"]


@pytest.mark.parametrize("stored", [False, True])
def test_a_log_that_has_stopped_lets_nothing_in_and_nothing_out(inner: MemoryEventLog, stored: bool) -> None:
    log, before, at, after = FaultyLog(MemoryEventLog(share=inner)), Told(), Told(), Told()
    log.submit("s", [event("a")], before)
    log.stop_at(Kind.ANSWER, stored=stored)
    log.submit("s", [event("b", Kind.ANSWER)], at, put=[IndexEntry("i", ("b",))])
    log.wait_until_stopped()
    log.submit("s", [event("c")], after)
    calls: list[Callable[[], object]] = [
        lambda: log.append("s", [event("d")]),
        lambda: log.delete("s"),
        lambda: log.read("s"),
        lambda: log.follow("s"),
        lambda: log.head("s"),
        lambda: log.streams(),
        lambda: log.index("i"),
    ]
    for call in calls:
        with pytest.raises(LogClosedError):
            Background(call).result()
    assert before.outcomes == [Appended(1, None)]
    assert (at.outcomes, after.outcomes) == ([], [])
    assert texts(inner) == (["a", "b"] if stored else ["a"])
    assert len(inner.index("i")) == stored
    log.close()
    assert [type(told.wait()) for told in (at, after)] == [LogClosedError, LogClosedError]
    assert texts(inner) == (["a", "b"] if stored else ["a"])


def test_the_owner_of_a_stopped_log_lives_until_it_is_closed(inner: MemoryEventLog) -> None:
    log = FaultyLog(MemoryEventLog(share=inner))
    log.append("s", [event("a")], claim=True)
    log.stop_at(1)
    with pytest.raises(LogClosedError):
        Background(lambda: log.append("s", [event("b")], token=1)).result()
    claim = inner.head("s").claim
    assert claim is not None
    assert (claim.owner, claim.alive) == (log.owner, True)
    log.close()
    assert inner.append("s", [event("c")], claim=True).position == 2


def test_who_waits_while_the_log_stops_is_told_so(inner: MemoryEventLog) -> None:
    log = FaultyLog(MemoryEventLog(share=inner))
    gate, told = log.hold(1), Told()
    log.submit("s", [event("a")], told)
    gate.arrived()
    waiting = Background(lambda: log.append("s", [event("b")]))
    following = Background(lambda: log.follow("s", timeout=60))
    log.stop_at(lambda stream, _: stream == "t")
    log.submit("t", [event("c")], told)
    for background in (waiting, following):
        with pytest.raises(LogClosedError):
            background.result()
    log.close()  # although the gate was never opened
    assert [type(outcome) for outcome in told.outcomes] == [LogClosedError, LogClosedError]
    assert inner.streams() == []


def test_an_answer_that_was_under_way_when_the_log_stopped_is_not_given() -> None:
    gate = Gate()

    class Slow(MemoryEventLog):
        def submit(self, stream: str, records: object, done: Callable[[Outcome], None], **_: object) -> None:
            if stream == "s":
                gate.wait()
            done(Appended(1, None))

    log, told = FaultyLog(Slow()), Told()
    slow = Background(lambda: log.submit("s", [event("a")], told))
    gate.arrived()
    log.stop_at(1)
    log.submit("t", [event("b")], told)
    log.wait_until_stopped()
    gate.open()
    slow.result()
    assert told.outcomes == []
    log.close()


def test_a_log_that_has_not_stopped_is_waited_for_with_a_limit(log: FaultyLog) -> None:
    log.append("s", [event("a")])
    with pytest.raises(TimeoutError, match="1 batches came"):
        log.wait_until_stopped(timeout=0.01)
