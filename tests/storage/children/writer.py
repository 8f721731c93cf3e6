"""Appends without end until it is killed, and says what it does: writer.py PATH MODE COMMITS.

It says `["submit", n]` before batch n is submitted, `["open"]` when a commit's transaction has been filled,
`["closed"]` when that is over, and `["shown", n]` when batch n is reported to be durable. At the commit
numbered COMMITS it says `["here"]`, and stops there if MODE is "waiting", before the transaction begins, or
"open", before it is committed. If MODE is "free", it goes on.
"""

import itertools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar
from unittest import mock

import lmdb

from children import say
from intermission_storage import Appended, IndexEntry, Kind, LmdbEventLog, Record, StorageError, lmdb_store
from intermission_storage.lmdb_environment import LmdbEnvironment

T = TypeVar("T")

PARTS = 3  # records of a batch
WINDOW = threading.Semaphore(64)  # batches under way
appending = threading.Event()  # the log is open, and what is written now are batches


class Telling(LmdbEnvironment):
    """An environment that says where it stands with each commit."""

    mode = ""
    commits = 0

    def write(self, work: Callable[[lmdb.Transaction], T], *, reserve: bool = False) -> T:
        """See `LmdbEnvironment.write`."""
        if not appending.is_set():
            return super().write(work, reserve=reserve)

        def then_say(transaction: lmdb.Transaction) -> T:
            result = work(transaction)
            say(["open"])
            self._here("open")
            return result

        self.commits -= 1
        self._here("waiting")
        try:
            return super().write(then_say, reserve=reserve)
        finally:
            say(["closed"])

    def _here(self, mode: str) -> None:
        if self.commits != 0:
            return
        if self.mode == mode:
            say(["here"])
            threading.Event().wait()
        elif self.mode == "free" and mode == "open":
            say(["here"])


def shown(number: int) -> Callable[[Appended | StorageError], None]:
    """Return the `done` of a batch: it says that the batch is durable."""

    def done(outcome: Appended | StorageError) -> None:
        say(["shown", number] if isinstance(outcome, Appended) else ["refused", number, str(outcome)])
        WINDOW.release()

    return done


def main(path: str, mode: str, commits: str) -> None:
    """Append to three streams, one of them claimed."""
    Telling.mode, Telling.commits = mode, int(commits)
    with mock.patch.object(lmdb_store, "LmdbEnvironment", Telling):
        log = LmdbEventLog(path)
    begin = Record(Kind.RUN_STARTED, {})
    token = log.append("claimed", [begin, begin, begin], claim=True).token
    first = sum(log.head(stream).position for stream in ("claimed", "left", "right"))
    appending.set()
    for number in itertools.count(first):
        WINDOW.acquire()
        say(["submit", number])
        stream = ("claimed", "left", "right")[number % 3]
        log.submit(
            stream,
            [Record(Kind.EVENT, {"batch": number, "part": part, "x": "x" * 500}) for part in range(PARTS)],
            shown(number),
            token=token if stream == "claimed" else None,
            put=[IndexEntry("batches", (str(number),), {"stream": stream})],
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
