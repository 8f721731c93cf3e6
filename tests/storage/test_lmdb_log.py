"""What only the log on disk promises."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lmdb
import pytest

from intermission.testing import Gate
from intermission_storage import (
    LmdbEventLog,
    LogCorruptError,
    LogFullError,
    LogVersionError,
    Record,
    StorageError,
    lmdb_log,
)
from tree import run

READ_AND_APPEND = """
import sys
from intermission_storage import LmdbEventLog, Record

with LmdbEventLog(sys.argv[1]) as log:
    print([record.data["text"] for record in log.read("s")])
    log.append("s", 1, [Record("event", {"text": "two"})])
"""


def event(text: str) -> Record:
    return Record("event", {"text": text})


def content(directory: Path) -> dict[str, bytes]:
    """Return the files of a directory but for LMDB's table of readers, which every opening writes."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock.mdb"}


def test_records_are_there_after_the_log_is_opened_again(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("s", 0, [event("one")])
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.read("s") == [Record("event", {"text": "one"}, 1)]
        assert log.append("s", 1, [event("two")]) == 2


def test_another_process_reads_and_appends_beside_this_one(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("s", 0, [event("one")])
        other = run(sys.executable, "-c", READ_AND_APPEND, str(tmp_path / "log"))
        other.check()
        assert other.output == "['one']\n"
        assert [record.data["text"] for record in log.read("s")] == ["one", "two"]


def test_a_second_log_on_one_path_in_one_process_is_refused(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        with pytest.raises(StorageError, match="already open"):
            LmdbEventLog(tmp_path / "log")
        log.append("s", 0, [event("one")])


def test_a_path_below_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        LmdbEventLog(tmp_path / "missing" / "log")


def test_a_file_is_no_log_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(LogCorruptError, match=r"notes\.txt is no event log"):
        LmdbEventLog(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("data", [b"mine", b"x" * 20_000])
def test_a_directory_with_another_data_file_is_no_log(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/data.mdb").write_bytes(data)
    with pytest.raises(LogCorruptError, match="is no event log"):
        LmdbEventLog(tmp_path / "log")
    assert content(tmp_path / "log") == {"data.mdb": data}


def test_a_log_whose_making_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/data.mdb").touch()
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.append("s", 0, [event("one")]) == 1


@pytest.mark.parametrize("key", [b"mine", b"meta"])
def test_the_environment_of_another_program_is_no_log(tmp_path: Path, key: bytes) -> None:
    path = tmp_path / "log"
    with lmdb.open(str(path)) as foreign, foreign.begin(write=True) as transaction:
        transaction.put(key, b"value")
    before = content(path)
    with pytest.raises(LogCorruptError, match="is no event log"):
        LmdbEventLog(path)
    assert content(path) == before


def test_a_log_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    LmdbEventLog(path).close()
    with lmdb.open(str(path), max_dbs=4) as newer, newer.begin(write=True) as transaction:
        transaction.put(b"format", b"\x02", db=newer.open_db(b"meta", transaction))
    before = content(path)
    with pytest.raises(LogVersionError, match="has log format 2"):
        LmdbEventLog(path)
    assert content(path) == before


def test_a_full_log_refuses_the_batch_and_stays_usable(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log", map_size=256 * 1024) as log:
        log.append("s", 0, [event("one")])
        with pytest.raises(LogFullError, match="no room"):
            log.append("s", 1, [event("x" * 20_000) for _ in range(100)])
        assert [record.data["text"] for record in log.read("s")] == ["one"]
        assert log.append("s", 1, [event("two")]) == 2
    with LmdbEventLog(tmp_path / "log") as log:
        assert [record.data["text"] for record in log.read("s")] == ["one", "two"]


def test_a_log_may_be_filled_to_the_brim(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log", map_size=256 * 1024) as log:
        written = 0
        with suppress(LogFullError):
            for written in range(1000):
                log.append("s", written, [event("x" * 1000)])
        assert 10 < written < 999
        assert written == log.position("s") == len(log.read("s"))
        assert log.streams() == ["s"]


def test_more_threads_than_lmdb_expects_read_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, gate = 200, Gate()
    read_head = lmdb_log._head  # pyright: ignore[reportPrivateUsage]  # a place inside a transaction

    def held(raw: bytes) -> tuple[str, int]:
        gate.wait()
        return read_head(raw)

    with LmdbEventLog(tmp_path / "log") as log, ThreadPoolExecutor(threads) as pool:
        log.append("s", 0, [event("one")])
        monkeypatch.setattr(lmdb_log, "_head", held)
        futures = [pool.submit(log.position, "s") for _ in range(threads)]
        try:
            gate.arrived(threads)
        finally:
            gate.open()
        assert [future.result(timeout=30) for future in futures] == [1] * threads


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x01\xc1", b"\x01\x05"])
def test_a_damaged_record_is_named(tmp_path: Path, damage: bytes) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("s", 0, [event("one"), event("two")])
    with lmdb.open(str(tmp_path / "log"), max_dbs=4) as env, env.begin(write=True) as transaction:
        records = env.open_db(b"records", transaction)
        (key, *_) = [key for key, value in transaction.cursor(records) if b"two" in value]
        transaction.put(key, damage, db=records)
    with LmdbEventLog(tmp_path / "log") as log:
        with pytest.raises(LogCorruptError, match="record 2 cannot be decoded"):
            log.read("s")
        assert [record.data["text"] for record in log.read("s", limit=1)] == ["one"]
