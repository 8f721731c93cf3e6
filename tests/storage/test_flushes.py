"""How often the log makes the disk flush: what its speed is made of, and the same on every machine."""

import mmap
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from flushes import compile_shim, count, in_child
from intermission.testing import Gate
from intermission_storage import IndexEntry, Kind, LmdbEventLog, Record
from intermission_storage.lmdb_stores import STORES

BATCHES = 100


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


def event(number: int = 0) -> Record:
    return Record(Kind.EVENT, {"number": number})


def flushes(work: Callable[[], object]) -> int:
    before = count()
    work()
    return count() - before


def commits(path: str) -> int:
    """Return the number of the last transaction of a log that is open in this process."""
    store = STORES.take(Path(path), sync=True, map_size=0, max_size=None, read_only=False)
    try:
        with store.environment.reading() as transaction:
            return transaction.id()
    finally:
        STORES.give_back(store)


# What follows runs in the child.


def some_calls(path: str) -> list[int]:
    """Return the flushes of each of some calls of the system."""
    plain = os.open(path, os.O_RDWR | os.O_CREAT)
    synced = [os.open(path, os.O_RDWR | flag) for flag in (os.O_SYNC, os.O_DSYNC)]
    os.write(plain, bytes(mmap.PAGESIZE))
    with mmap.mmap(plain, mmap.PAGESIZE) as memory:
        found = [
            flushes(lambda: [os.write(plain, b"."), os.writev(plain, [b"."])]),
            flushes(lambda: [os.pwrite(plain, b".", 0), os.pwritev(plain, [b"."], 0)]),
            flushes(lambda: os.fsync(plain)),
            flushes(lambda: os.fdatasync(plain)),
            flushes(memory.flush),
        ]
    for file in synced:
        found += [
            flushes(partial(os.write, file, b".")),
            flushes(partial(os.writev, file, [b"."])),
            flushes(partial(os.pwrite, file, b".", 0)),
            flushes(partial(os.pwritev, file, [b"."], 0)),
        ]
    for file in synced:
        os.close(file)
    reused = [os.open(path, os.O_RDWR) for _ in synced]
    return [*found, *(flushes(partial(os.write, file, b".")) for file in reused)]


def lone_appends(path: str, sync: bool) -> list[int]:
    """Return the flushes of an append that begins a stream, of one that goes on, and of one with an index."""
    with LmdbEventLog(path, sync=sync) as log:
        entry = IndexEntry("open", ("s",))
        return [
            flushes(lambda: log.append("s", [event()], expected=0)),
            flushes(lambda: log.append("s", [event(), event()], expected=1)),
            flushes(lambda: log.append("s", [event()], put=[entry])),
        ]


def waiting_together(path: str) -> list[int]:
    """Return the flushes and commits of batches that wait while the thread that commits is held."""
    gate = Gate()
    durable = threading.Semaphore(0)
    with LmdbEventLog(path) as log:
        log.submit("first", [event()], lambda _: gate.wait())
        gate.arrived()
        for number in range(BATCHES):
            log.submit(f"stream {number % 10}", [event(number)], lambda _: durable.release())
        flushed, committed = count(), commits(path)
        gate.open()
        for _ in range(BATCHES):
            assert durable.acquire(timeout=30)
        return [count() - flushed, commits(path) - committed]


def run_of(path: str, length: int) -> int:
    """Return the flushes of a stream that is claimed, appended to, and released, in `length` commits."""

    def work() -> None:
        token = log.append("s", [event()], claim=True, put=[IndexEntry("open", ("s",))]).token
        for number in range(length - 2):
            log.append("s", [event(number)], expected=number + 1, token=token)
        log.append("s", [event()], token=token, release=True, drop=[IndexEntry("open", ("s",))])

    with LmdbEventLog(path) as log:
        return flushes(work)


# And this here.


def test_each_way_to_flush_is_counted_once_and_nothing_else(shim: Path, tmp_path: Path) -> None:
    assert in_child(shim, some_calls, str(tmp_path / "file")) == [0, 0, *[1] * 11, 0, 0]


def test_a_pretended_disk_counts_the_same(shim: Path, tmp_path: Path) -> None:
    assert in_child(shim, some_calls, str(tmp_path / "file"), flush_us=0) == [0, 0, *[1] * 11, 0, 0]


def test_an_append_alone_costs_two_flushes(shim: Path, tmp_path: Path) -> None:
    assert in_child(shim, lone_appends, str(tmp_path / "log"), True) == [2, 2, 2]


def test_an_append_without_sync_costs_no_flush(shim: Path, tmp_path: Path) -> None:
    assert in_child(shim, lone_appends, str(tmp_path / "log"), False) == [0, 0, 0]


def test_a_hundred_batches_that_wait_together_cost_one_commit_and_two_flushes(
    shim: Path, tmp_path: Path
) -> None:
    assert in_child(shim, waiting_together, str(tmp_path / "log")) == [2, 1]


def test_a_run_of_n_commits_with_its_claim_and_its_release_costs_two_n_flushes(
    shim: Path, tmp_path: Path
) -> None:
    assert in_child(shim, run_of, str(tmp_path / "log"), 5) == 10


def test_a_machine_without_a_c_compiler_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="no C compiler"):
        compile_shim(tmp_path)
