"""Stops itself inside a commit: stopping.py PATH.

It says "ready" with the log open and waits for a message. Then it appends, stops before the commit is made
(`SIGSTOP`), and, when it has been let go on, says where the stream stands.
"""

import signal
import sys
import threading
from unittest import mock

from children import say, told
from intermission_storage import Kind, LmdbEventLog, Record
from intermission_storage.lmdb_batch import LmdbBatch

FINISH = LmdbBatch.finish


def stop_and_finish(batch: LmdbBatch) -> None:
    """Stop, then do what there is left to do."""
    # To this thread, which then stands at this line: one to the process may be taken by another thread, and
    # this one could commit before it is stopped.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    FINISH(batch)


def main(path: str) -> None:
    """See the module."""
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {"text": "before"})], claim=True)
        say("ready")
        told()
        with mock.patch.object(LmdbBatch, "finish", stop_and_finish):
            say(log.append("t", [Record(Kind.EVENT, {"text": "stopped"})]).position)


if __name__ == "__main__":
    main(*sys.argv[1:])
