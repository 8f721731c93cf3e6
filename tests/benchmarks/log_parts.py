"""What `log.py` measures: each part is a function that runs in a child and returns a row of its table."""

import os
import shutil
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import lmdb

from flushes import count
from intermission_storage import (
    Appended,
    IndexEntry,
    Kind,
    LmdbEventLog,
    Record,
    StorageError,
    lmdb_log,
    verify,
)
from intermission_storage.codec import encode_record, encode_segment
from intermission_storage.lmdb_schema import digest

PATIENCE = 200.0  # seconds
CLOCK = time.perf_counter


def _answer(number: int) -> Record:
    """Return what the runtime stores of an answer, with a text that makes it 300 bytes."""
    data: dict[str, Any] = {
        "id": f"2018af7716e64e1abcc1767{number:09}",
        "invocationId": "e-0efc4731-569e-4d2e-acb4-b233973316d2",
        "author": "support",
        "timestamp": 1796040001.7908626 + 0.137 * number,
        "actions": {"stateDelta": {}, "artifactDelta": {}},
        "content": {"role": "model", "parts": [{"text": "x" * 96}]},
    }
    return Record(Kind.EVENT, data)


RECORDS = [_answer(number) for number in range(1024)]  # not one, whose bytes might be lucky ones
ENCODED = encode_record(RECORDS[0])
VALUE = encode_segment([ENCODED])

Row = list[str]


class Crowd:
    """Writers that each append the next record when their last one is durable, as sessions do in a runtime.

    Args:
        log: Where to append.
        streams: For each writer, the streams that it goes round.
        each: How many appends a writer makes; `None` for as many as there is time for.
    """

    def __init__(
        self, log: LmdbEventLog, streams: Sequence[Sequence[str]], *, each: int | None = None
    ) -> None:
        self.log = log
        self.each = each
        self.stopping = False
        self.appends = 0
        self.failure: StorageError | None = None
        self._writers = [_Writer(self, own) for own in streams]
        self._left = len(streams)
        self._over = threading.Event()

    def run(self, seconds: float | None = None) -> float:
        """Let them append, and return how many records were durable in a second."""
        begun = CLOCK()
        for writer in self._writers:
            writer.submit(None)
        if seconds is not None:
            self._over.wait(seconds)
            self.stopping = True
        if not self._over.wait(PATIENCE) or self.failure:
            raise RuntimeError("the writers have not ended") from self.failure
        return self.appends / (CLOCK() - begun)

    def leave(self) -> None:
        """Called by each writer, all on the thread that commits."""
        self._left -= 1
        if not self._left:
            self._over.set()


class _Writer:
    __slots__ = ("_alone", "_appends", "_crowd", "_done", "_streams", "_submit")

    def __init__(self, crowd: Crowd, streams: Sequence[str]) -> None:
        self._crowd, self._streams = crowd, streams
        self._appends = 0
        self._alone = len(streams) == 1
        self._submit = crowd.log.submit
        self._done = self._go_on

    def submit(self, expected: int | None) -> None:
        stream = self._streams[0 if self._alone else self._appends % len(self._streams)]
        self._submit(stream, [RECORDS[self._appends & 1023]], self._done, expected=expected)

    def _go_on(self, outcome: Appended | StorageError) -> None:
        crowd = self._crowd
        if isinstance(outcome, StorageError):
            crowd.failure = outcome
            crowd.leave()
            return
        crowd.appends += 1
        self._appends += 1
        if crowd.stopping or self._appends == crowd.each:
            crowd.leave()
        else:
            self.submit(outcome.position if self._alone else None)


def names(number: int) -> list[str]:
    return [f"app/user-{stream}/session-{stream}" for stream in range(number)]


def append_together(streams: int, seconds: float) -> tuple[float, float]:
    """Return the records that a new log makes durable in a second, and how many share a commit."""
    with tempfile.TemporaryDirectory() as directory, LmdbEventLog(Path(directory) / "log") as log:
        own = [[name] for name in names(streams)]
        Crowd(log, own, each=1).run()
        before = count()
        crowd = Crowd(log, own)
        rate = crowd.run(seconds)
        return rate, crowd.appends / ((count() - before) / 2)


def put_together(streams: int, seconds: float) -> float:
    """Return the same of LMDB alone: one thread that puts encoded records, as many in a transaction."""
    keys = [digest(name) for name in names(streams)]
    with tempfile.TemporaryDirectory() as directory:
        environment = lmdb.open(directory, map_size=64 << 30, max_dbs=8)
        database = environment.open_db(b"segments")
        number = 0
        begun = CLOCK()
        while CLOCK() - begun < seconds:
            number += 1
            tail = struct.pack(">Q", number)
            with environment.begin(write=True) as transaction:
                for key in keys:
                    transaction.put(key + tail, VALUE, db=database)
        rate = number * streams / (CLOCK() - begun)
        environment.close()
        return rate


def already_encoded(_: Record) -> bytes:
    """Stand in for `encode_record`: LMDB alone does not encode, either."""
    return ENCODED


def share(rates: Sequence[float], limits: Sequence[float]) -> str:
    return percent(statistics.median(rate / limit for rate, limit in zip(rates, limits, strict=True)))


def percent(number: float) -> str:
    return f"{100 * number:.1f} %" if number < 0.1 else f"{100 * number:.0f} %"


def rate(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):,.0f}"


def appends(disk: str, streams: int, rounds: int, seconds: float) -> Row:
    """Callback appends against LMDB alone."""
    limits: list[float] = []
    all_of_it: list[float] = []
    without_encoding: list[float] = []
    together: list[float] = []
    for _ in range(rounds):
        limits.append(put_together(streams, seconds))
        durable, size = append_together(streams, seconds)
        all_of_it.append(durable)
        together.append(size)
        with mock.patch.object(lmdb_log, "encode_record", already_encoded):
            without_encoding.append(append_together(streams, seconds)[0])
    return [
        disk,
        f"{streams:,}",
        rate(limits),
        rate(all_of_it),
        f"{statistics.median(together):,.0f}",
        share(all_of_it, limits),
        share(without_encoding, limits),
    ]


def busy(interval: float, rounds: int, seconds: float) -> Row:
    """Appends beside a thread that computes, against appends without one."""
    sys.setswitchinterval(interval)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        alone.append(append_together(100, seconds)[0])
        over = threading.Event()
        thread = threading.Thread(target=compute, args=[over])
        thread.start()
        try:
            beside.append(append_together(100, seconds)[0])
        finally:
            over.set()
            thread.join()
    return [f"{1000 * interval:g} ms", rate(alone), rate(beside), share(beside, alone)]


def compute(over: threading.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1


def fill(path: str, streams: int, each: int) -> float:
    """Make a log with a commit for each record of a stream, and return how long that took."""
    begun = CLOCK()
    with LmdbEventLog(path, sync=False) as log:
        Crowd(log, [[name] for name in names(streams)], each=each).run()
    took = CLOCK() - begun
    with (Path(path) / "data.mdb").open("rb") as file:
        os.fsync(file)  # or the disk would be busy with it during what is measured
    return took


def verifying(path: str) -> Row:
    """How long `verify` takes, and how far the look at the file's pages is part of it."""
    with LmdbEventLog(path, read_only=True) as log:
        begun = CLOCK()
        problems = log.check_structure()
        structure = CLOCK() - begun
        begun = CLOCK()
        report = verify(log)
        took = CLOCK() - begun
    if problems or report.problems:
        raise RuntimeError(f"the log is damaged: {problems} {report.problems}")
    size = (Path(path) / "data.mdb").stat().st_size
    return [f"{report.records:,}", f"{size / (1 << 20):,.0f} MiB", f"{took:.1f} s", f"{structure:.1f} s"]


def growth(disk: str, small: str, large: str, sync: bool, pairs: int) -> Row:
    """A lone append and a hundred in a transaction, in a small log and in a large one."""
    lone: list[Sequence[float]] = []
    together: list[Sequence[float]] = []
    # Each writer goes round ten streams, so that a commit changes leaves all over the file.
    streams = [names(1000)[writer::100] for writer in range(100)]
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as directory, ExitStack() as logs:
            fresh = shutil.copytree(small, Path(directory) / "log")  # or it would soon be small no longer
            both = [logs.enter_context(LmdbEventLog(path, sync=sync)) for path in (fresh, large)]
            for log in both:
                Crowd(log, streams, each=10).run()
            lone.append(lone_appends(both, 100))
            together.append([Crowd(log, streams, each=50).run() for log in both])
    times = list(zip(*lone, strict=True))
    rates = list(zip(*together, strict=True))
    return [
        disk,
        *(f"{1e6 * statistics.median(of_log):,.0f} us" for of_log in times),
        f"{statistics.median(large / small for small, large in lone):.2f}x",
        *map(rate, rates),
        share(rates[1], rates[0]),
    ]


def lone_appends(logs: Sequence[LmdbEventLog], number: int) -> list[float]:
    """Return the median times of appends that share no commit, made to the logs in turns."""
    times: list[list[float]] = [[] for _ in logs]
    streams = names(1000)
    for turn in range(number):
        for log, found in zip(logs, times, strict=True):
            begun = CLOCK()
            log.append(streams[turn * 389 % 1000], [RECORDS[turn]])
            found.append(CLOCK() - begun)
    return [statistics.median(found) for found in times]


def open_runs(streams: int, rounds: int) -> Row:
    """Listing the streams with an open run: from an index, and by looking at each stream's claim."""
    from_index: list[float] = []
    from_heads: list[float] = []
    with tempfile.TemporaryDirectory() as directory, LmdbEventLog(Path(directory) / "log", sync=False) as log:
        for number, name in enumerate(names(streams)):
            is_open = number % (streams // 1000) == 0
            put = [IndexEntry("open", (name,), {"run": name})] if is_open else []
            log.submit(name, [RECORDS[0]], lambda _: None, claim=is_open, put=put)
        log.append("last", [RECORDS[0]])
        for _ in range(rounds):
            begun = CLOCK()
            indexed = {entry.stream for entry in log.index("open")}
            from_index.append(CLOCK() - begun)
            begun = CLOCK()
            claimed = {name for name in log.streams() if log.head(name).claim}
            from_heads.append(CLOCK() - begun)
            if indexed != claimed or len(indexed) != 1000:
                raise RuntimeError(f"{len(indexed)} runs in the index, {len(claimed)} at the heads")
    medians = [statistics.median(times) for times in (from_index, from_heads)]
    return [
        f"{streams:,}",
        *(f"{1000 * median:,.1f} ms" for median in medians),
        share(from_index, from_heads),
    ]
