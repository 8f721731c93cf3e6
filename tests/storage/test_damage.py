"""A damaged log is an error, or reads what is right: never a signal, never wrong data, never damaged more."""

import hashlib
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import pytest

import scale
from children import Child
from intermission_storage import (
    IndexEntry,
    Kind,
    LmdbEventLog,
    LogCorruptError,
    LogVersionError,
    Record,
    StorageError,
    lmdb_schema,
    verify,
)
from intermission_storage.lmdb_file import page_problems

PAGE = 4096
FLIPS = scale.rounds(150, 10_000)
pytestmark = pytest.mark.scenario("E7")


@dataclass
class Outcome:
    """What came of using a log: see `children/opening.py`."""

    exit: int
    read: dict[str, Any] | None = None
    error: tuple[str, ...] = ()
    text: str = ""


class Patient:
    """A sound log, to be copied and damaged, and a child process that opens the copies."""

    def __init__(self, directory: Path, child: Child) -> None:
        self.copy = directory / "copy"
        self._sound = directory / "sound"
        self._child = child
        with LmdbEventLog(self._sound) as log:
            for number in range(60):
                record = Record(Kind.EVENT, {"number": number, "text": "x" * (20, 300, 3000)[number % 3]})
                entry = IndexEntry("i", (f"key {number}",), {"number": number})
                log.append(f"stream {number % 7}", [record, record], put=[entry])
            log.delete("stream 3")
            log.append("claimed", [Record(Kind.RUN_STARTED, {})], claim=True)
        self.sound_bytes = (self._sound / "data.mdb").read_bytes()
        self.renew()
        self.contents = self.use().read
        assert self.contents, "the sound log cannot be read"

    @property
    def data(self) -> Path:
        """The copy's data file."""
        return self.copy / "data.mdb"

    def renew(self) -> Path:
        """Make a new copy of the sound log, and return its path."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self._sound, self.copy)
        return self.copy

    def use(self, path: Path | None = None) -> Outcome:
        """Read everything in the copy, append to it and delete from it."""
        return Outcome(**self._child.ask(str(path or self.copy)))

    def check(self, damage: object) -> bool:
        """Use the copy; return whether it was refused, asserting that it was read rightly if not."""
        before = digest(self.data)
        outcome = self.use()
        assert outcome.exit == 0, f"{damage}: ended with {outcome.exit}"
        if outcome.read is not None:
            assert outcome.read == self.contents, f"{damage}: read something else"
            return False
        assert "StorageError" in outcome.error, f"{damage}: {outcome}"
        if "Nothing was changed" in outcome.text:
            assert digest(self.data) == before, f"{damage}: changed, but {outcome.text}"
        return True


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    with Child("opening") as child:
        yield Patient(tmp_path, child)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(directory: Path) -> dict[str, bytes]:
    """Return the files of a directory but for those that every opening makes or writes."""
    made = {"lock.mdb", "owners.lock"}
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name not in made}


def flips(size: int, seed: int) -> Iterator[tuple[int, int]]:
    """Yield places in a file of that size, often at the beginning of a page, and what to put there."""
    chance = random.Random(seed)
    page = chance.randrange(size // PAGE) * PAGE
    for _ in range(chance.choice([1, 1, 8])):
        yield page + chance.randrange(chance.choice([32, 160, PAGE])), chance.randrange(256)


def test_a_log_with_bytes_changed_is_refused_or_read_rightly(patient: Patient) -> None:
    refused = 0
    for seed in range(FLIPS):
        damaged = bytearray(patient.sound_bytes)
        for place, byte in flips(len(damaged), seed):
            damaged[place] = byte
        patient.renew()
        patient.data.write_bytes(damaged)
        refused += patient.check(f"flips of seed {seed}")
    assert FLIPS / 20 < refused < FLIPS


def test_a_log_that_was_cut_short_is_refused(patient: Patient) -> None:
    size = len(patient.sound_bytes)
    lengths = {
        size - 1,
        size - PAGE,
        size - PAGE - 1,
        size // 2,
        2 * PAGE,
        2 * PAGE + 1,
        PAGE,
        PAGE - 1,
        200,
        1,
    }
    lengths |= set(range(0, size, size // scale.rounds(10, 500))) - {0}
    for length in sorted(lengths):
        patient.renew()
        patient.data.write_bytes(patient.sound_bytes[:length])
        assert patient.check(f"the first {length} of {size} bytes") or length > 2 * PAGE


def test_a_log_whose_end_is_missing_is_refused_and_left_as_it_is(patient: Patient) -> None:
    path = patient.renew()
    patient.data.write_bytes(patient.sound_bytes[: len(patient.sound_bytes) // 2])
    before = files(path)
    for read_only in (False, True):
        with pytest.raises(LogCorruptError, match=r"has been cut short.*Nothing was changed in it"):
            LmdbEventLog(path, read_only=read_only)
        assert files(path) == before


def test_a_log_with_a_damaged_page_is_refused_and_left_as_it_is(patient: Patient) -> None:
    path = patient.renew()
    for found in re.finditer(b"stream 1", patient.sound_bytes):
        page = found.start() // PAGE * PAGE
        damaged = bytearray(patient.sound_bytes)
        damaged[page : page + 32] = bytes(32)
        patient.data.write_bytes(damaged)
        if page_problems(path):  # else nothing points to the page any more
            break
    before = files(path)
    for read_only in (False, True):
        with pytest.raises(LogCorruptError, match=r"is damaged.*Nothing was changed in it"):
            LmdbEventLog(path, read_only=read_only)
        assert files(path) == before


@pytest.mark.parametrize("lost", [["lock.mdb"], ["owners.lock"], ["lock.mdb", "owners.lock"]], ids="+".join)
def test_the_files_of_locks_may_be_lost_while_the_log_is_closed(patient: Patient, lost: list[str]) -> None:
    path = patient.renew()
    for name in lost:
        (path / name).unlink()
    assert patient.use().read == patient.contents
    patient.renew()
    for name in lost:
        (path / name).unlink()
    with LmdbEventLog(path, read_only=True) as log:
        assert log.read("claimed")
        claim = log.head("claimed").claim
        assert claim is not None
        assert not claim.alive


def test_a_data_file_of_no_bytes_is_a_log_that_was_never_begun(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/data.mdb").touch()
    with LmdbEventLog(tmp_path / "log") as log:
        assert log.streams() == []
        assert log.append("s", [Record(Kind.EVENT, {})]).position == 1


def write_notes(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_bytes(b"notes")


def write_much(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_bytes(b"notes" * PAGE)


def write_other_keys(path: Path) -> None:
    with lmdb.open(str(path)) as foreign, foreign.begin(write=True) as transaction:
        transaction.put(b"meta", b"value")


def write_other_database(path: Path) -> None:
    with lmdb.open(str(path), max_dbs=1) as foreign, foreign.begin(write=True) as transaction:
        transaction.put(b"key", b"value", db=foreign.open_db(b"meta", transaction))


@pytest.mark.parametrize("write", [write_notes, write_much, write_other_keys, write_other_database])
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_log_is_refused_and_left_as_it_is(
    tmp_path: Path, write: Callable[[Path], None], read_only: bool
) -> None:
    path = tmp_path / "other"
    write(path)
    before = files(path)
    with pytest.raises(LogCorruptError, match="is no event log"):
        LmdbEventLog(path, read_only=read_only)
    assert files(path) == before


def test_a_file_in_the_place_of_the_directory_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(LogCorruptError, match=r"notes\.txt is no event log: a log is a directory"):
        LmdbEventLog(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_log_of_a_newer_format_is_refused_and_left_as_it_is(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "log"
    LmdbEventLog(path).close()
    with lmdb.open(str(path), max_dbs=1) as newer, newer.begin(write=True) as transaction:
        transaction.put(b"format", b"\x02", db=newer.open_db(b"meta", transaction))
    before = files(path)
    with pytest.raises(LogVersionError, match="has log format 2"):
        LmdbEventLog(path, read_only=read_only)
    assert files(path) == before


def test_a_record_of_a_newer_version_is_refused_and_those_before_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {"text": "one"})])
        log.append("s", [Record(Kind.EVENT, {"text": "two"})])
    with lmdb.open(str(path), max_dbs=1) as newer, newer.begin(write=True) as transaction:
        segments = newer.open_db(b"segments", transaction, create=False)
        cursor = transaction.cursor(segments)
        assert cursor.last()
        transaction.put(cursor.key(), b"\x02" + cursor.value()[1:], db=segments)
    with LmdbEventLog(path) as log:
        with pytest.raises(LogVersionError, match="record 2 has format version 2"):
            log.read("s")
        assert [record.data["text"] for record in log.read("s", limit=1)] == ["one"]
        assert issubclass(LogVersionError, StorageError)


def test_a_stream_of_which_records_are_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LmdbEventLog(path) as log:
        for _ in range(3):
            log.append("s", [Record(Kind.EVENT, {}), Record(Kind.EVENT, {})])
    with lmdb.open(str(path), max_dbs=1) as other, other.begin(write=True) as transaction:
        cursor = transaction.cursor(other.open_db(b"segments", transaction, create=False))
        assert cursor.first()
        assert cursor.next()
        assert cursor.delete()
    with LmdbEventLog(path) as log:
        for after in (0, 2):
            with pytest.raises(LogCorruptError, match=f"records between {after} and 6 are missing"):
                log.read("s", after=after)
        assert [record.seq for record in log.read("s", limit=2)] == [1, 2]
        assert [record.seq for record in log.read("s", after=4)] == [5, 6]


def test_a_claim_with_a_byte_changed_is_refused_and_reported(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("claimed", [Record(Kind.EVENT, {})], claim=True)
        log.append("free", [Record(Kind.EVENT, {})])
    key, sound = stored_claim(tmp_path / "log")
    for place in range(len(sound)):
        store_claim(tmp_path / "log", key, sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with LmdbEventLog(tmp_path / "log") as log:
            with pytest.raises((LogCorruptError, LogVersionError)):
                log.head("claimed")
            with pytest.raises((LogCorruptError, LogVersionError)):
                log.append("claimed", [Record(Kind.EVENT, {})], claim=True, take_over=True)
            (problem,) = verify(log).problems
            assert "stream 'claimed'" in problem
            assert log.append("free", [Record(Kind.EVENT, {})]).token is None


def test_a_claim_that_was_moved_to_another_stream_is_refused(tmp_path: Path) -> None:
    with LmdbEventLog(tmp_path / "log") as log:
        log.append("claimed", [Record(Kind.EVENT, {})], claim=True)
        log.append("free", [Record(Kind.EVENT, {})])
    _, claim = stored_claim(tmp_path / "log")
    store_claim(tmp_path / "log", lmdb_schema.digest("free"), claim)
    with LmdbEventLog(tmp_path / "log") as log, pytest.raises(LogCorruptError, match="claim of the stream"):
        log.head("free")


def stored_claim(path: Path) -> tuple[bytes, bytes]:
    """Return the only claim in a log that is closed: its key and its bytes."""
    with lmdb.open(str(path), max_dbs=8) as environment, environment.begin() as transaction:
        (found,) = list(transaction.cursor(environment.open_db(b"claims", transaction)))
    return found


def store_claim(path: Path, key: bytes, value: bytes) -> None:
    """Put another claim into a log that is closed."""
    with lmdb.open(str(path), max_dbs=8) as environment, environment.begin(write=True) as transaction:
        transaction.put(key, value, db=environment.open_db(b"claims", transaction))
