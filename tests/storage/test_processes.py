"""Threads and processes that share a log: who may write, who is told so, who is dead."""

import itertools
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scale
from children import Child
from commits import Outcomes, hold
from intermission_storage import (
    BatchOptions,
    ClaimedError,
    Kind,
    LmdbEventLog,
    LogBusyError,
    Record,
    StaleClaimError,
)
from intermission_storage.lmdb_owners import ProcessLock
from intermission_storage.lmdb_turn import WriteTurn
from remote import RemoteError, RemoteLog

RECORD = Record(Kind.EVENT, {"text": "x"})

# Of test_a_crowd…: so many threads in each process append so many records to each of so many streams.
THREADS, STREAMS, APPENDS = 16, 50, scale.rounds(2, 100)
RUNS = scale.rounds(50, 500)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[LmdbEventLog]:
    with LmdbEventLog(path) as log:
        yield log


def descriptors(path: Path) -> list[str]:
    """Return the files of a log that this process has open, one entry for each descriptor."""
    found = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sorted(Path(target).name for target in found if Path(target).parent == path)


def text_of(record: Record) -> str:
    return str(record.data["text"])


@pytest.mark.scenario("E8")
def test_a_crowd_of_threads_in_two_processes_begins_a_new_log_and_loses_nothing(path: Path) -> None:
    sizes = map(str, (THREADS, STREAMS, APPENDS))
    with (
        Child("crowd", path, "a", *(arguments := list(sizes))) as a,
        Child("crowd", path, "b", *arguments) as b,
    ):
        assert [a.hear(), b.hear()] == ["ready", "ready"]
        a.tell("go")
        b.tell("go")
        assert [a.hear(), b.hear()] == ["done", "done"]
    writers = {f"{name}.{thread}" for name in "ab" for thread in range(THREADS)}
    with LmdbEventLog(path) as log:
        assert sorted(log.streams()) == sorted(f"s{stream}" for stream in range(STREAMS))
        for stream in log.streams():
            records = log.read(stream)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            of_writer: dict[str, list[int]] = {writer: [] for writer in writers}
            for record in records:
                of_writer[record.data["writer"]].append(record.data["number"])
            assert of_writer == {writer: list(range(APPENDS)) for writer in writers}


@pytest.mark.scenario("D2")
def test_runs_of_two_processes_in_one_stream_never_interleave(path: Path) -> None:
    with Child("runs", path, "a", str(RUNS)) as a, Child("runs", path, "b", str(RUNS)) as b:
        assert [a.hear(), b.hear()] == ["ready", "ready"]
        a.tell("go")
        b.tell("go")
        refusals = a.hear() + b.hear()
    with LmdbEventLog(path) as log:
        records = log.read("s")
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    whole = [Kind.RUN_STARTED, Kind.EVENT, Kind.EVENT, Kind.EVENT, Kind.RUN_ENDED]
    runs = [
        (name, list(group)) for name, group in itertools.groupby(records, lambda record: record.data["run"])
    ]
    assert all([record.kind for record in group] == whole for _, group in runs)
    assert Counter(name for name, _ in runs) == {f"{name}{run}": 1 for name in "ab" for run in range(RUNS)}
    assert refusals > 0, "the two never met, so this has proved nothing"


def test_the_claim_of_a_process_that_was_killed_is_free_at_once(path: Path, log: LmdbEventLog) -> None:
    with RemoteLog(path) as other:
        _, token = other.append("s", "theirs", claim=True)
        with pytest.raises(ClaimedError):
            log.append("s", [RECORD], claim=True)
        other.kill()
    claim = log.head("s").claim
    assert claim is not None
    assert (claim.token, claim.owner.pid, claim.alive) == (token, other.pid, False)
    assert log.append("s", [RECORD], claim=True).position == 2


def test_a_stream_whose_claimer_was_killed_may_be_appended_to_without_a_claim(
    path: Path, log: LmdbEventLog
) -> None:
    with RemoteLog(path) as other:
        other.append("s", "theirs", claim=True)
        with pytest.raises(ClaimedError):
            log.append("s", [RECORD])
        other.kill()
    assert log.append("s", [RECORD]).position == 2


@pytest.mark.scenario("D2")
def test_a_process_that_hangs_keeps_its_claim_until_it_is_taken_over_and_then_writes_nothing(
    path: Path, log: LmdbEventLog
) -> None:
    with RemoteLog(path) as other:
        _, token = other.append("s", "theirs", claim=True)
        other.signal(signal.SIGSTOP)
        zombie = other.later("append", "s", "of the zombie", token=token, release=True)
        with pytest.raises(ClaimedError, match=f"is claimed by process {other.pid} on ") as refusal:
            log.append("s", [RECORD], claim=True)
        assert (refusal.value.stream, refusal.value.owner.pid) == ("s", other.pid)
        taken = log.append("s", [RECORD], claim=True, take_over=True)
        other.signal(signal.SIGCONT)
        with pytest.raises(RemoteError, match=f"no longer held under claim {token}") as stale:
            zombie()
        assert stale.value.name == "StaleClaimError"
        with pytest.raises(RemoteError, match="ClaimedError"):
            other.append("s", "of the zombie")
        assert other.append("t", "elsewhere") == (1, None)
    assert [text_of(record) for record in log.read("s")] == ["theirs", "x"]
    assert log.append("s", [RECORD], token=taken.token).position == 3


def test_a_process_whose_stream_was_deleted_meanwhile_cannot_write_it_back(
    path: Path, log: LmdbEventLog
) -> None:
    with RemoteLog(path) as other:
        _, token = other.append("s", "theirs", claim=True)
        with pytest.raises(ClaimedError):
            log.delete("s")
        assert log.delete("s", take_over=True)
        with pytest.raises(RemoteError, match="StaleClaimError"):
            other.append("s", "of the zombie", token=token)
    assert log.read("s") == []


def test_what_another_process_deletes_and_begins_anew_is_seen_at_once(path: Path, log: LmdbEventLog) -> None:
    with RemoteLog(path) as other:
        for _ in range(3):
            log.append("s", [RECORD, RECORD])
            assert other.append("s", "theirs") == (3, None)
            assert other.delete("s")
            assert log.append("s", [RECORD]).position == 1
            assert log.delete("s")
            assert other.append("s", "theirs") == (1, None)
            assert other.delete("s")


@pytest.mark.scenario("E8")
def test_a_fork_can_do_nothing_with_the_log_and_does_nothing_to_the_parents(path: Path) -> None:
    with Child("forking", path) as parent:
        outcomes: dict[str, str] = {}
        while "use" in (said := parent.hear()):
            outcomes[said["use"]] = said["outcome"]
        assert said == {"alive": True, "append": "nothing raised"}
        assert outcomes.pop("close") == "nothing raised"
        assert outcomes.pop("another log") == "nothing raised"
        assert len(outcomes) == 11
        assert set(outcomes.values()) == {"LogForkedError"}
        with LmdbEventLog(path) as log, pytest.raises(ClaimedError):
            log.append("s", [RECORD], claim=True)


def test_a_claim_is_free_when_its_process_was_killed_although_a_fork_of_it_lives(path: Path) -> None:
    with Child("forking", path) as parent:
        while "alive" not in parent.hear():
            pass
        parent.kill()
        with LmdbEventLog(path) as log:
            assert log.append("s", [RECORD], claim=True).position == 3
        # The fork lives until its input ends, and its output would have ended with it.
        assert parent.is_talking()


def test_a_fork_made_while_another_thread_opens_a_log_may_open_its_own(tmp_path: Path) -> None:
    with Child("fork_while_opening", tmp_path) as parent:
        assert parent.hear() == ["of the fork", 1]
        assert parent.hear() == ["of the parent", 1]


def test_a_child_that_was_started_with_spawn_may_open_the_log(path: Path) -> None:
    with Child("spawning", path) as parent:
        assert parent.hear() == [0, ["parent", "child"]]


def test_two_logs_on_one_path_share_an_environment_and_are_two_owners(path: Path, log: LmdbEventLog) -> None:
    before = descriptors(path)
    (path.parent / "alias").symlink_to(path)
    with LmdbEventLog(path.parent / "alias") as other:
        assert descriptors(path) == before
        assert other.owner != log.owner
        assert (other.owner.pid, log.owner.pid) == (os.getpid(), os.getpid())
        token = other.append("s", [RECORD], claim=True).token
        with pytest.raises(ClaimedError) as refusal:
            log.append("s", [RECORD], claim=True)
        assert refusal.value.owner == other.owner
        log.append("t", [RECORD], claim=True)
    assert log.append("s", [RECORD], claim=True).position == 2
    with pytest.raises(StaleClaimError):
        log.append("s", [RECORD], token=token)
    claim = log.head("t").claim
    assert claim is not None
    assert (claim.owner, claim.alive) == (log.owner, True)


def test_closing_the_last_log_on_a_path_gives_everything_back(path: Path) -> None:
    threads = set(threading.enumerate())
    first, second = LmdbEventLog(path), LmdbEventLog(path)
    first.append("s", [RECORD])
    first.close()
    assert second.append("s", [RECORD]).position == 2
    assert set(descriptors(path)) == {"data.mdb", "lock.mdb", "owners.lock"}
    second.close()
    assert descriptors(path) == []
    assert set(threading.enumerate()) == threads
    path.rename(path.with_name("moved"))
    with LmdbEventLog(path) as new:
        assert new.streams() == []


@pytest.fixture
def stopped(path: Path) -> Iterator[Child]:
    """A process that was stopped in the middle of a commit to a log, of which it has the stream "s"."""
    LmdbEventLog(path).close()
    with Child("stopping", path) as child:
        assert child.hear() == "ready"
        yield child


def stop(child: Child) -> None:
    """Let the process come to the middle of its commit, and return when it stands there."""
    child.tell("go")
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)


def test_who_waits_too_long_for_a_process_that_was_stopped_in_its_commit_is_told_which(
    path: Path, stopped: Child
) -> None:
    with LmdbEventLog(path, turn_timeout=0.2) as log:
        stop(stopped)
        for options in (BatchOptions(), BatchOptions(claim=True, take_over=True)):
            with pytest.raises(LogBusyError, match=f"process {stopped.pid} has kept the turn") as refusal:
                log.append("s", [RECORD], **options)
            assert refusal.value.pid == stopped.pid
        assert [text_of(record) for record in log.read("s")] == ["before"]
        stopped.signal(signal.SIGCONT)
        assert stopped.hear() == 1
        assert log.append("s", [RECORD], claim=True, take_over=True).position == 2


def test_all_that_wait_together_for_a_process_that_was_stopped_wait_once(path: Path, stopped: Child) -> None:
    outcomes = Outcomes()
    with LmdbEventLog(path, turn_timeout=0.5) as log:
        gate = hold(log)
        for number in range(100):
            log.submit(f"s{number % 10}", [RECORD], outcomes.of(number))
        stop(stopped)
        begun = time.monotonic()
        gate.open()
        with pytest.raises(LogBusyError):
            log.append("last", [RECORD])
        assert time.monotonic() - begun < 10
        stopped.kill()
        assert log.append("last", [RECORD]).position == 1
    assert set(outcomes.errors().values()) == {"LogBusyError"}
    assert len(outcomes.errors()) == 100


def test_a_log_is_neither_opened_nor_closed_without_limit_while_a_process_is_stopped_in_its_commit(
    path: Path, stopped: Child, caplog: pytest.LogCaptureFixture
) -> None:
    log, other = LmdbEventLog(path, turn_timeout=0.1), LmdbEventLog(path, turn_timeout=0.1)
    token = other.append("u", [RECORD], claim=True).token
    stop(stopped)
    with pytest.raises(LogBusyError):
        LmdbEventLog(path, turn_timeout=0.1)
    other.close()
    assert "could not be removed" in caplog.text
    stopped.kill()
    LmdbEventLog(path, turn_timeout=0.1).close()
    claim = log.head("u").claim
    assert claim is not None
    assert (claim.token, claim.alive) == (token, False)
    log.close()


class ScriptedLock(ProcessLock):
    """A turn that is free, and wished for by another process, or not, as often as the test says."""

    def __init__(self, path: Path, *, taken: int = 0, wished: int = 0) -> None:
        super().__init__(path, read_only=False)
        self.taken, self.wished = taken, wished
        self.asked: list[str] = []

    def take_turn(self) -> bool:
        self.asked.append("take")
        self.taken -= 1
        return self.taken < 0

    def is_turn_wished(self) -> bool:
        self.asked.append("wished?")
        self.wished -= 1
        return self.wished >= 0

    def wish_for_turn(self) -> bool:
        self.asked.append("wish")
        return True

    def wish_no_more(self) -> None:
        self.asked.append("wish no more")


def test_who_writes_all_the_time_lets_another_process_go_first(path: Path) -> None:
    lock = ScriptedLock(path, wished=2)
    WriteTurn(lock, path, timeout=30).take()
    assert lock.asked == ["wished?", "wished?", "wished?", "take"]


def test_who_waits_for_the_turn_says_so_until_it_has_it(path: Path) -> None:
    lock = ScriptedLock(path, taken=3)
    WriteTurn(lock, path, timeout=30).take()
    assert lock.asked == ["wished?", "take", "take", "wish", "take", "take", "wish no more"]


def test_taking_the_turn_lets_no_thread_that_computes_go_first(path: Path) -> None:
    path.mkdir()
    lock = ProcessLock(path, read_only=False)
    turn = WriteTurn(lock, path, timeout=0.0)
    turn.take()
    turn.give_back()
    told, ran, interval = threading.Lock(), threading.Event(), sys.getswitchinterval()

    def run() -> None:
        with told:
            ran.set()

    told.acquire()
    thread = threading.Thread(target=run)
    sys.setswitchinterval(1000.0)  # seconds: from now on the GIL goes only to who is let have it
    try:
        thread.start()  # returns when the thread waits to be told
        told.release()
        for _ in range(scale.rounds(20_000, 100_000)):
            turn.take()
            turn.give_back()
        assert not lock.is_turn_wished()
        assert not ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join(60)
        lock.close()


@pytest.mark.scenario("D3")
def test_the_clock_does_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps: list[Any] = []
    for now in (1_000_000.0, 1_000_000.0, 1_000_000.0 - 3600):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        with LmdbEventLog(path) as log:
            begin = log.head("s").position
            for number in range(begin, begin + scale.rounds(50, 1000)):
                at = log.append("s", [Record(Kind.EVENT, {"text": "x", "at": time.time()})], expected=number)
                assert at.position == number + 1
                stamps.append(now)
    with LmdbEventLog(path) as log:
        records = log.read("s")
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record.data["at"] for record in records] == stamps
