"""What only the log on disk promises, beside growth, damage and other processes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import pytest

from intermission.testing import Gate
from intermission_storage import Kind, LmdbEventLog, Record, StorageError, lmdb_schema


def event(text: str) -> Record:
    return Record(Kind.EVENT, {"text": text})


def test_records_are_there_after_the_log_is_opened_again(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("s", [event("one")])
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.read("s") == [Record(Kind.EVENT, {"text": "one"}, 1)]
        assert log.append("s", [event("two")], expected=1).position == 2


def test_a_path_below_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        LmdbEventLog(tmp_path / "missing" / "log")


def test_a_log_that_is_open_with_another_sync_is_refused(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log", sync=False) as log:
        with pytest.raises(ValueError, match="sync=False, not sync=True"):
            LmdbEventLog(tmp_path / "log")
        assert log.append("s", [event("one")]).position == 1
    LmdbEventLog(tmp_path / "log").close()


def test_a_log_that_is_open_with_another_max_size_is_refused(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log", max_size=1 << 20) as log:
        for other in (None, 2 << 20):
            with pytest.raises(ValueError, match=f"max_size=1048576, not max_size={other}"):
                LmdbEventLog(tmp_path / "log", max_size=other)
        assert log.append("s", [event("one")]).position == 1
        with LmdbEventLog(tmp_path / "log", read_only=True) as reader:
            assert reader.head("s").position == 1
    LmdbEventLog(tmp_path / "log", max_size=2 << 20).close()


def test_more_threads_than_lmdb_expects_read_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, gate = 200, Gate()
    last_number = lmdb_schema.last_number

    def held(cursor: lmdb.Cursor, stream: bytes) -> int:
        gate.wait()  # inside the transaction
        return last_number(cursor, stream)

    with LmdbEventLog(tmp_path / "log") as log, ThreadPoolExecutor(threads) as pool:
        log.append("s", [event("one")])
        monkeypatch.setattr(lmdb_schema, "last_number", held)
        futures = [pool.submit(log.head, "s") for _ in range(threads)]
        try:
            gate.arrived(threads)
        finally:
            gate.open()
        assert [future.result(timeout=30).position for future in futures] == [1] * threads
