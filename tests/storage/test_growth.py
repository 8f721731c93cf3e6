"""A log that outgrows its map, its limit or its disk, or that may not be written at all."""

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import scale
from children import Child
from commits import Outcomes, hold
from intermission_storage import (
    Kind,
    LmdbEventLog,
    LogFullError,
    LogReadOnlyError,
    Record,
    StorageError,
)
from intermission_storage.lmdb_file import page_problems
from remote import RemoteError, RemoteLog
from tree import ROOT

SMALL = 64 << 10  # bytes of a map
LIMIT = 512 << 10

# Runs a command where it may mount what nobody else sees, as root or, where the system allows it, as another.
OWN_MOUNTS = ("unshare", "--mount", "--map-root-user")
UNPRIVILEGED = (sys.executable, str(ROOT / "tests/storage/children/unprivileged.py"))


def event(number: int, size: int = 1000) -> Record:
    return Record(Kind.EVENT, {"number": number, "text": "x" * size})


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.data["number"] for record in records]


def fill(log: LmdbEventLog, *streams: str) -> int:
    """Append to the streams in turn until not even the smallest record has room; return how many had."""
    written = 0
    for size in (20_000, 1000, 0):
        try:
            while True:
                log.append(streams[written % len(streams)], [event(written, size)])
                written += 1
        except LogFullError as error:
            assert "max_size" in str(error)  # noqa: PT017 - each size ends with a refusal
    return written


@pytest.mark.scenario("E1")
def test_a_map_that_grows_tenfold_under_readers_loses_nothing(tmp_path: Path) -> None:
    written = threading.Event()

    def read(log: LmdbEventLog) -> int:
        """Read the stream page by page, again and again."""
        rounds = 0
        while not written.is_set() or not rounds:
            last = 0
            while page := log.read("s", after=last, limit=7):
                assert numbers(page) == list(range(last, last + len(page)))
                last = page[-1].seq
            rounds += 1
        return rounds

    size = scale.rounds(16_000, 1000)
    count = 10 * SMALL // size + 10
    with LmdbEventLog(tmp_path / "log", map_size=SMALL) as log, ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read, log) for _ in range(2)]
        try:
            for number in range(count):
                log.append("s", [event(number, size)])
        finally:
            written.set()
        assert all(reader.result(60) for reader in readers)
        assert numbers(log.read("s")) == list(range(count))
    assert (tmp_path / "log/data.mdb").stat().st_size > 10 * SMALL
    assert page_problems(tmp_path / "log") == []


@pytest.mark.scenario("E1")
def test_a_log_at_its_limit_refuses_appends_reads_deletes_and_then_has_room(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log", map_size=SMALL, max_size=LIMIT) as log:
        streams = [f"s{number}" for number in range(8)]
        written = fill(log, *streams)
        assert sorted(number for stream in streams for number in numbers(log.read(stream))) == list(
            range(written)
        )
        for round_ in range(scale.rounds(5, 50)):
            stream = streams[round_ % len(streams)]
            assert log.delete(stream)
            log.append(stream, [event(0)])
            fill(log, stream)
    assert (tmp_path / "log/data.mdb").stat().st_size <= LIMIT + (1 << 20)
    assert page_problems(tmp_path / "log") == []


@pytest.mark.scenario("E1")
def test_a_log_at_its_limit_is_closed_and_opened_and_its_owners_claims_are_free(tmp_path: Path) -> None:
    for round_ in range(3):
        with LmdbEventLog(tmp_path / "log", map_size=SMALL, max_size=LIMIT) as log:
            log.append("claimed", [event(round_)], claim=True)
            fill(log, "s")
            assert log.delete("s")
            fill(log, "s")
        with LmdbEventLog(tmp_path / "log", max_size=LIMIT) as log:
            claim = log.head("claimed").claim
            assert claim is not None
            assert not claim.alive
            assert log.delete("s")


@pytest.mark.scenario("E1")
def test_a_batch_that_is_too_large_fails_no_other_that_waits_with_it(tmp_path: Path) -> None:
    outcomes = Outcomes()
    with LmdbEventLog(tmp_path / "log", map_size=SMALL, max_size=LIMIT) as log:
        gate = hold(log)
        for name, size in {"a": 10, "large": 2 * LIMIT, "b": 10}.items():
            log.submit(name, [event(0, size)], outcomes.of(name))
        gate.open()
    assert outcomes.errors() == {"large": "LogFullError"}
    assert len(outcomes.all) == 3
    with LmdbEventLog(tmp_path / "log") as log:
        assert sorted(log.streams()) == ["a", "b", "gate"]


@pytest.mark.scenario("E2")
def test_two_processes_that_both_grow_the_map_lose_nothing(tmp_path: Path) -> None:
    count = scale.rounds(500, 5000)
    path = tmp_path / "log"
    with Child("growing", path, "a", str(count)) as a, Child("growing", path, "b", str(count)) as b:
        assert [a.hear(), b.hear()] == ["ready", "ready"]
        a.tell("go")
        b.tell("go")
        assert [a.hear(), b.hear()] == ["done", "done"]
    assert page_problems(path) == []
    with LmdbEventLog(path) as log:
        assert numbers(log.read("a")) == numbers(log.read("b")) == list(range(count))
        assert sorted(numbers(log.read("both"))) == sorted([*range(0, count, 5)] * 2)


def test_what_goes_to_other_streams_stays_with_its_batch_when_batches_are_tried_alone(
    tmp_path: Path,
) -> None:
    outcomes = Outcomes()
    with LmdbEventLog(tmp_path / "log", map_size=SMALL, max_size=LIMIT) as log:
        gate = hold(log)
        for number, (name, size) in enumerate({"a": 10, "large": 2 * LIMIT, "b": 10}.items()):
            also = {"shared": [event(number, 10)]}
            log.submit(name, [event(0, size)], outcomes.of(name), also=also)
        log.submit("c", [event(0, 10)], outcomes.of("c"), also={"shared": [event(3, 2 * LIMIT)]})
        gate.open()
    assert outcomes.errors() == {"large": "LogFullError", "c": "LogFullError"}
    with LmdbEventLog(tmp_path / "log") as log:
        assert numbers(log.read("shared")) == [0, 2]
        assert sorted(log.streams()) == ["a", "b", "gate", "shared"]


@pytest.mark.scenario("E7")
def test_a_full_disk_refuses_appends_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with Child("full_disk", tmp_path, before=OWN_MOUNTS) as child:
        full = child.hear()
        assert "cannot mount" not in full, f"this test needs the right to mount a small disk: {full}"
        assert full["refusal"] == "LogFullError"
        assert full["read"] == full["written"] > 50
        assert child.hear() == {"read": full["written"] + 2}


@pytest.mark.scenario("E7")
def test_a_file_that_may_not_grow_further_refuses_appends_and_the_log_stays_readable(tmp_path: Path) -> None:
    with RemoteLog(tmp_path / "log") as log:
        log.result("limit_files", 200_000)
        with pytest.raises(RemoteError, match=r"StorageError: .*Nothing was written"):
            log.result("fill", "s", "x" * 1000)
        written = log.texts("s")
        assert len(written) > 50
        log.result("limit_files", None)
        assert log.append("s", "after") == (len(written) + 1, None)
        log.close()
    with LmdbEventLog(tmp_path / "log") as reopened:
        assert [record.data["text"] for record in reopened.read("s")] == [*written, "after"]


@pytest.mark.scenario("E7")
def test_a_log_in_a_directory_that_may_not_be_written_is_read_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {"text": "one"})])
    for file in path.iterdir():
        file.chmod(0o444)
    path.chmod(0o555)
    try:
        with pytest.raises(RemoteError, match=r"LogReadOnlyError: .*LmdbEventLog\(path, read_only=True\)"):
            RemoteLog(path, before=UNPRIVILEGED)
        with RemoteLog(path, before=UNPRIVILEGED, read_only=True) as reader:
            assert reader.texts("s") == ["one"]
            with pytest.raises(RemoteError, match=r"LogReadOnlyError: .*nothing was written"):
                reader.append("s", "two")
            with pytest.raises(RemoteError, match="LogReadOnlyError"):
                reader.delete("s")
            reader.close()
    finally:
        path.chmod(0o755)


def test_a_log_that_is_only_read_sees_what_another_process_appends_and_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with RemoteLog(path) as writer:
        writer.append("s", "one", claim=True)
        with LmdbEventLog(path, read_only=True) as log:
            claim = log.head("s").claim
            assert claim is not None
            assert (claim.owner.pid, claim.alive) == (writer.pid, True)
            writer.append("t", "one")
            assert [record.data["text"] for record in log.follow("t", timeout=60)] == ["one"]
            writer.kill()
            claim = log.head("s").claim
            assert claim is not None
            assert not claim.alive


def test_a_log_that_this_process_only_reads_is_not_opened_for_writing_beside(tmp_path: Path) -> None:
    LmdbEventLog(tmp_path / "log").close()
    with (
        LmdbEventLog(tmp_path / "log", read_only=True),
        pytest.raises(LogReadOnlyError, match="open in this process for reading only"),
    ):
        LmdbEventLog(tmp_path / "log")
    with LmdbEventLog(tmp_path / "log") as log, LmdbEventLog(tmp_path / "log", read_only=True) as reader:
        log.append("s", [event(1)])
        assert numbers(reader.read("s")) == [1]


@pytest.mark.parametrize("missing", ["nothing", "data"])
def test_a_log_that_is_missing_cannot_be_opened_for_reading_and_is_not_created(
    tmp_path: Path, missing: str
) -> None:
    path = tmp_path / "log"
    if missing == "data":
        path.mkdir()
    before = list(tmp_path.rglob("*"))
    with pytest.raises(StorageError, match="No such file"):
        LmdbEventLog(path, read_only=True)
    assert list(tmp_path.rglob("*")) == before
