"""Forks while another thread opens a log: fork_while_opening.py DIRECTORY.

The fork opens another log, and says what is in it after an append; the parent opens its own.
"""

import os
import sys
import threading
from typing import Any
from unittest import mock

from children import say
from intermission.testing import Gate
from intermission_storage import Kind, LmdbEventLog, Record, lmdb_stores
from intermission_storage.lmdb_store import LmdbStore


def use(path: str) -> None:
    """Append to a log, and say how many records there are."""
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {})])
        say([os.path.basename(path), len(log.read("s"))])


def main(directory: str) -> None:
    """Hold a thread where it opens a log, and fork."""
    gate = Gate()

    def opening(*arguments: Any, **options: Any) -> LmdbStore:
        gate.wait()
        return LmdbStore(*arguments, **options)

    with mock.patch.object(lmdb_stores, "LmdbStore", opening):
        thread = threading.Thread(target=use, args=(f"{directory}/of the parent",))
        thread.start()
        gate.arrived()
        if (child := os.fork()) == 0:
            gate = Gate()
            gate.open()
            use(f"{directory}/of the fork")
            os._exit(0)
        os.waitpid(child, 0)
        gate.open()
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
