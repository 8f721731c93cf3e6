"""What becomes of appends on their way to the disk: their order, their company, what they cost."""

import dataclasses
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import scale
from blocked import wait_until_blocked
from commits import Outcomes, hold
from intermission.testing import Gate
from intermission_storage import (
    Appended,
    Kind,
    LmdbEventLog,
    Record,
    StorageError,
)
from intermission_storage.lmdb_stores import STORES

WAITING_BYTES = 64 << 20  # and so many bytes of them
WAITING = 4096  # batches may wait for the thread that commits; the next submitter waits for room


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[LmdbEventLog]:
    with LmdbEventLog(path) as log:
        yield log


class SlowRecords(list[Record]):
    """Records that stop whoever encodes them."""

    def __init__(self, *records: Record) -> None:
        super().__init__(records)
        self.gate = Gate()

    def __iter__(self) -> Iterator[Record]:
        self.gate.wait()
        return super().__iter__()


def event(value: object = None) -> Record:
    return Record(Kind.EVENT, {"value": value})


@dataclasses.dataclass(frozen=True)
class Counters:
    """What LMDB counts."""

    transaction: int
    segments: int


def counters(path: Path) -> Counters:
    """Return the number of the last transaction, and how often records have been put."""
    store = STORES.take(path, sync=True, map_size=0, max_size=None, read_only=True)
    try:
        with store.environment.reading() as transaction:
            segments = transaction.stat(store.databases.segments)["entries"]
        return Counters(store.environment.raw.info()["last_txnid"], segments)
    finally:
        STORES.give_back(store)


def bytes_written() -> int:
    """Return how many bytes this process has written to anything."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar:")).split()[1])


@pytest.mark.scenario("E4")
def test_a_done_may_submit_to_another_stream(log: LmdbEventLog) -> None:
    outcomes, finished = Outcomes(), threading.Event()

    def then(_: Appended | StorageError) -> None:
        log.submit("b", [event("second")], outcomes.of("b"))
        log.submit("a", [event("third")], outcomes.of("a"))
        log.submit("a", [event("fourth")], lambda _: finished.set())

    log.submit("a", [event("first")], then)
    assert finished.wait(30)
    assert outcomes.all == {"b": Appended(1, None), "a": Appended(2, None)}
    assert [record.data["value"] for record in log.read("a")] == ["first", "third", "fourth"]


@pytest.mark.scenario("E4")
@pytest.mark.parametrize("call", ["append", "delete", "close"])
def test_a_call_in_a_done_that_would_wait_for_itself_is_an_error(log: LmdbEventLog, call: str) -> None:
    raised: list[BaseException] = []
    finished = threading.Event()
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: log.append("b", [event()]),
        "delete": lambda: log.delete("a"),
        "close": log.close,
    }

    def done(_: Appended | StorageError) -> None:
        try:
            calls[call]()
        except RuntimeError as error:
            raised.append(error)
        finally:
            finished.set()

    log.submit("a", [event()], done)
    assert finished.wait(30)
    assert [str(error) for error in raised] == [
        "this call waits for the thread that commits, and was made on it, in a done"
    ]
    assert log.append("a", [event()]).position == 2
    assert log.streams() == ["a"]


@pytest.mark.scenario("E4")
def test_a_done_that_raises_fails_nobody(log: LmdbEventLog, caplog: pytest.LogCaptureFixture) -> None:
    def raise_error(_: Appended | StorageError) -> None:
        raise ValueError("of the user")

    outcomes = Outcomes()
    gate = hold(log)
    log.submit("a", [event()], raise_error)
    log.submit("b", [event()], outcomes.of("b"))
    gate.open()
    assert log.append("a", [event()]).position == 2
    assert outcomes.all == {"b": Appended(1, None)}
    assert "of the user" in caplog.text


@pytest.mark.scenario("E4")
def test_a_batch_that_is_slow_to_encode_holds_up_nobody_elses_commit(log: LmdbEventLog) -> None:
    slow = SlowRecords(event())
    thread = threading.Thread(target=log.append, args=("slow", slow))
    thread.start()
    try:
        slow.gate.arrived()
        assert log.append("quick", [event()]).position == 1
        assert log.streams() == ["quick"]
    finally:
        slow.gate.open()
        thread.join(30)
    assert sorted(log.streams()) == ["quick", "slow"]


@pytest.mark.scenario("E9")
def test_a_long_stream_costs_no_more_for_each_commit_and_little_more_than_its_payload(path: Path) -> None:
    steps, payload = 2000, "x" * 2000

    def cost(log: LmdbEventLog, count: int) -> float:
        """Append so many records, one a commit, and return the bytes written for each."""
        before = bytes_written()
        for _ in range(count):
            log.append("s", [event(payload)])
        return (bytes_written() - before) / count

    with LmdbEventLog(path, sync=False) as log:
        cost(log, 50)
        early = cost(log, 100)
        cost(log, steps - 250)
        late = cost(log, 100)
        assert len(log.read("s")) == steps
    assert late <= 2 * early
    assert (path / "data.mdb").stat().st_size < 3 * steps * len(payload)


@pytest.mark.scenario("E10")
def test_submitters_wait_while_the_queue_is_full_and_go_on_when_it_is_not(log: LmdbEventLog) -> None:
    count = 3 * WAITING
    submitted: list[int] = []
    outcomes = Outcomes()

    def submit() -> None:
        for number in range(count):
            log.submit("s", [event(number)], outcomes.of(number))
            submitted.append(number)

    gate = hold(log)
    thread = threading.Thread(target=submit)
    thread.start()
    try:
        wait_until_blocked(thread)
        assert len(submitted) == WAITING
        assert outcomes.all == {}
    finally:
        gate.open()
        thread.join(60)
    assert len(submitted) == count
    assert log.append("s", [event(count)]).position == count + 1
    assert list(outcomes.all) == list(range(count))
    assert [record.data["value"] for record in log.read("s")] == list(range(count + 1))


@pytest.mark.scenario("E10")
def test_submitters_wait_while_many_bytes_wait_and_a_batch_of_more_passes_alone(log: LmdbEventLog) -> None:
    large, larger = bytes(4 << 20), bytes(WAITING_BYTES + 1)
    count = 2 * WAITING_BYTES // len(large)
    submitted: list[int] = []
    outcomes = Outcomes()

    def submit() -> None:
        for number in range(count):
            log.submit("s", [event(large)], outcomes.of(number))
            submitted.append(number)

    gate = hold(log)
    thread = threading.Thread(target=submit)
    thread.start()
    try:
        wait_until_blocked(thread)
        assert sum(len(large) for _ in submitted) <= WAITING_BYTES
        assert len(submitted) > 1
    finally:
        gate.open()
        thread.join(60)
    gate = hold(log)
    log.submit("s", [event(larger)], outcomes.of("larger"))
    gate.open()
    assert log.append("s", [event()]).position == count + 2
    assert list(outcomes.all) == [*range(count), "larger"]


@pytest.mark.scenario("E10")
def test_memory_stays_flat_while_the_store_is_slower_than_those_who_append(log: LmdbEventLog) -> None:
    count, payload = scale.rounds(3, 20) * WAITING, 1000

    def submit() -> None:
        for number in range(count):
            log.submit("s", [event(bytes(payload))], lambda _: None, expected=number)

    log.append("s", [event()])
    log.delete("s")
    tracemalloc.start()
    try:
        gate = hold(log)
        thread = threading.Thread(target=submit)
        thread.start()
        wait_until_blocked(thread)
        full, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        gate.open()
        thread.join(60)
        log.append("s", [event()], expected=count)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # One group is being committed, and its segment put together, while the next one waits.
    assert full > WAITING * payload
    assert peak < 5 * full
    assert left < full / 4


def test_batches_that_wait_together_are_one_commit(log: LmdbEventLog, path: Path) -> None:
    outcomes = Outcomes()
    gate = hold(log)
    before = counters(path)
    for number in range(100):
        log.submit(f"s{number % 10}", [event(number)], outcomes.of(number))
    gate.open()
    log.append("last", [event()])
    after = counters(path)
    assert len(outcomes.all) == 100
    assert after.transaction - before.transaction <= 2
    # The records of a stream were put together, and those of `last`.
    assert after.segments - before.segments == 10 + 1
    for number in range(10):
        assert [record.data["value"] for record in log.read(f"s{number}")] == list(range(number, 100, 10))


def test_a_batch_that_is_refused_fails_no_other_that_waits_with_it(log: LmdbEventLog) -> None:
    outcomes = Outcomes()
    gate = hold(log)
    log.submit("a", [event("first")], outcomes.of("first"), expected=0)
    log.submit("a", [event("refused")], outcomes.of("refused"), expected=0)
    log.submit("b", [event("other")], outcomes.of("other"), expected=0)
    log.submit("a", [event("second")], outcomes.of("second"), expected=1)
    log.submit("c", [event("stale")], outcomes.of("stale"), token=99)
    gate.open()
    log.append("last", [event()])
    assert outcomes.errors() == {"refused": "ConflictError", "stale": "StaleClaimError"}
    assert [record.data["value"] for record in log.read("a")] == ["first", "second"]
    assert sorted(log.streams()) == ["a", "b", "gate", "last"]


def test_a_batch_that_cannot_be_written_fails_no_other_of_its_stream(path: Path) -> None:
    outcomes = Outcomes()
    with LmdbEventLog(path, max_size=1 << 20) as log:
        gate = hold(log)
        log.submit("a", [event("first")], outcomes.of("first"))
        log.submit("a", [event("x" * (2 << 20))], outcomes.of("too large"))
        log.submit("a", [event("second")], outcomes.of("second"))
        log.submit("b", [event("other")], outcomes.of("other"))
        gate.open()
        log.append("last", [event()])
        assert outcomes.errors() == {"too large": "LogFullError"}
        assert [record.data["value"] for record in log.read("a")] == ["first", "second"]
        assert [record.data["value"] for record in log.read("b")] == ["other"]


def test_everything_submitted_before_the_close_is_committed_and_reported(path: Path) -> None:
    outcomes = Outcomes()
    log = LmdbEventLog(path)
    gate = hold(log)
    for number in range(100):
        log.submit("s", [event(number)], outcomes.of(number))
    closer = threading.Thread(target=log.close)
    closer.start()
    wait_until_blocked(closer)
    gate.open()
    closer.join(30)
    assert outcomes.all == {number: Appended(number + 1, None) for number in range(100)}
    with LmdbEventLog(path) as reopened:
        assert reopened.head("s").position == 100


def test_who_waits_for_room_in_a_log_that_is_closed_is_told_so(path: Path) -> None:
    log = LmdbEventLog(path)
    raised: list[StorageError] = []

    def submit() -> None:
        try:
            for number in range(2 * WAITING):
                log.submit("s", [event(number)], lambda _: None)
        except StorageError as error:
            raised.append(error)

    gate = hold(log)
    submitter, closer = threading.Thread(target=submit), threading.Thread(target=log.close)
    submitter.start()
    wait_until_blocked(submitter)
    closer.start()
    wait_until_blocked(closer)
    gate.open()
    submitter.join(30)
    closer.join(30)
    assert [type(error).__name__ for error in raised] == ["LogClosedError"]
    with LmdbEventLog(path) as reopened:
        assert reopened.head("s").position == WAITING
