"""What other code of the process, other processes and signals may do to a log, and must not harm it."""

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import scale
import tree
from children import Child
from intermission_storage import (
    Appended,
    Kind,
    LmdbEventLog,
    Record,
    StorageError,
)
from intermission_storage.lmdb_file import is_marked_clean

EVENT = Record(Kind.EVENT, {"x": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def in_a_child(program: str) -> tree.Finished:
    """Run a program with this tree's packages."""
    return tree.run(sys.executable, "-c", program, timeout=60)


def claim_elsewhere(path: Path) -> str:
    """Try to claim the stream `s` in another process; return what came of it."""
    program = f"""
from intermission_storage import *
with LmdbEventLog({str(path)!r}) as log:
    try:
        log.append("s", [Record(Kind.EVENT, {{}})], claim=True)
        print("claimed")
    except ClaimedError:
        print("refused")
"""
    finished = in_a_child(program)
    finished.check()
    return finished.output.strip()


def test_copying_the_files_of_an_open_log_takes_nobodys_claim_away(path: Path, tmp_path: Path) -> None:
    with LmdbEventLog(path) as log:
        log.append("s", [EVENT], claim=True)
        (path / "owners.lock").read_bytes()
        shutil.copy(path / "owners.lock", tmp_path / "copy")
        assert claim_elsewhere(path) == "refused"


def test_a_reader_who_waits_for_a_log_to_appear_takes_nothing_away_from_its_maker(path: Path) -> None:
    made = threading.Event()

    def look() -> None:
        while not made.is_set():
            finished = in_a_child(
                f"""
from intermission_storage import LmdbEventLog, StorageError
for _ in range(200):
    try:
        LmdbEventLog({str(path)!r}, read_only=True).close()
    except StorageError:
        pass
"""
            )
            finished.check()

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(5):
            with LmdbEventLog(path) as log:
                assert log.append("s", [EVENT]).position >= 1
            with LmdbEventLog(path) as log:
                assert log.read("s") != []
    finally:
        made.set()
        looker.join(60)

    assert (path / "data.mdb").exists()


def test_a_log_at_a_relative_path_is_the_same_after_the_folder_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with LmdbEventLog("log") as log:
        log.append("s", [EVENT])
        monkeypatch.chdir(tmp_path / "other")
        assert log.check_structure() == []
        with LmdbEventLog("log") as other:
            assert other.read("s") == []
    assert is_marked_clean(tmp_path / "one" / "log")


def test_a_log_that_was_removed_while_it_is_open_is_not_handed_out_again(path: Path) -> None:
    with LmdbEventLog(path) as log:
        log.append("s", [EVENT])
        shutil.rmtree(path)
        with pytest.raises(StorageError, match="was moved or removed while it is open"):
            LmdbEventLog(path)
    with LmdbEventLog(path) as log:
        assert log.streams() == []


def test_a_changed_file_is_looked_at_although_the_log_was_closed_in_good_order(path: Path) -> None:
    with LmdbEventLog(path) as log:
        log.append("s", [EVENT])
    assert is_marked_clean(path)
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes())
    assert not is_marked_clean(path)


def test_a_log_without_sync_leaves_no_mark_of_good_order(path: Path) -> None:
    with LmdbEventLog(path, sync=False) as log:
        log.append("s", [EVENT])
    assert not is_marked_clean(path)


def test_what_was_submitted_is_committed_although_the_process_ends_without_closing(path: Path) -> None:
    program = f"""
from intermission_storage import *
log = LmdbEventLog({str(path)!r}, sync=False)
for number in range(2000):
    log.submit("s", [Record(Kind.EVENT, {{"n": number}})], lambda _: None)
"""
    in_a_child(program).check()
    with LmdbEventLog(path) as log:
        assert log.head("s").position == 2000


@pytest.fixture
def failing_listener() -> Iterator[None]:
    """A program whose log lines cannot be written."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit("nobody can listen")

    handler = Failing()
    logging.getLogger("intermission.storage").addHandler(handler)
    yield
    logging.getLogger("intermission.storage").removeHandler(handler)


@pytest.mark.usefixtures("failing_listener")
def test_a_done_that_raises_while_nobody_can_log_it_stops_nothing(path: Path) -> None:
    def done(_: Appended | StorageError) -> None:
        raise SystemExit("done")

    with LmdbEventLog(path) as log:
        log.submit("s", [EVENT], done)
        assert log.append("s", [EVENT]).position == 2


def test_a_signal_handler_may_close_a_log_that_is_being_closed(path: Path) -> None:
    log = LmdbEventLog(path)
    log.append("s", [EVENT], claim=True)
    held = threading.Event()

    def close(*_: object) -> None:
        log.close()

    def hold(_: object) -> None:
        held.wait(30)

    before = signal.signal(signal.SIGALRM, close)
    log.submit("s", [EVENT], hold, take_over=True, claim=True)
    threading.Timer(0.2, held.set).start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        log.close()
    finally:
        signal.signal(signal.SIGALRM, before)

    assert claim_elsewhere(path) == "claimed"


def test_a_close_that_ctrl_c_interrupted_can_be_done_again(path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    held = threading.Event()

    def hold(_: object) -> None:
        held.wait(30)

    log = LmdbEventLog(path)
    with LmdbEventLog(path):
        log.submit("s", [EVENT], hold, claim=True)
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            with pytest.raises(KeyboardInterrupt):
                log.close()
        finally:
            signal.signal(signal.SIGALRM, before)
        held.set()
        log.close()
        assert claim_elsewhere(path) == "claimed"


def test_a_reader_without_a_place_among_the_readers_is_refused_while_somebody_writes(path: Path) -> None:
    program = f"""
from intermission_storage import *
try:
    LmdbEventLog({str(path)!r}, read_only=True).close()
    print("read")
except LogReadOnlyError as error:
    print("refused" if "is in use" in str(error) else error)
"""
    unprivileged = str(tree.ROOT / "tests/storage/children/unprivileged.py")
    command = (sys.executable, unprivileged, sys.executable, "-c", program)
    with LmdbEventLog(path) as log:
        log.append("s", [EVENT])
        for name in os.listdir(path):
            os.chmod(path / name, 0o444)
        os.chmod(path, 0o555)
        while_open = tree.run(*command, timeout=60)
        os.chmod(path, 0o755)
        os.chmod(path / "data.mdb", 0o644)
    os.chmod(path, 0o555)
    after = tree.run(*command, timeout=60)
    os.chmod(path, 0o755)

    assert (while_open.output.strip(), after.output.strip()) == ("refused", "read")


def test_numbers_beyond_all_logs_are_refused_alike(path: Path) -> None:
    with LmdbEventLog(path) as log:
        for after, limit in ((2**64 - 1, None), (0, 2**70)):
            with pytest.raises(ValueError, match="no log holds that many"):
                log.read("s", after=after, limit=limit)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("append", 1),
        ("claim", 1),
        ("read", 1),
        ("follow", 1),
        ("delete", 1),
        ("open", scale.rounds(13, 1)),  # of another log
    ],
)
def test_a_signal_handler_may_close_a_log_at_any_line_of_a_call(tmp_path: Path, call: str, step: int) -> None:
    with Child("interrupted", tmp_path, call, str(step)) as child:
        lines, successes = child.hear()
    assert lines > 30
    assert successes > 0
