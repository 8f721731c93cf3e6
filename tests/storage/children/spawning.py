"""Opens a log, and has a child started by the spawn method append to it: spawning.py PATH."""

import multiprocessing
import sys

from children import say
from intermission_storage import Kind, LmdbEventLog, Record


def append(path: str, text: str) -> None:
    """Append to the log."""
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {"text": text})])


def main(path: str) -> None:
    """Append before the child, and say what there is after it."""
    with LmdbEventLog(path) as log:
        log.append("s", [Record(Kind.EVENT, {"text": "parent"})])
        child = multiprocessing.get_context("spawn").Process(target=append, args=(path, "child"))
        child.start()
        child.join()
        say([child.exitcode, [record.data["text"] for record in log.read("s")]])


if __name__ == "__main__":
    main(*sys.argv[1:])
