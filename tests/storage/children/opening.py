"""Opens logs that may be damaged, each in a process of its own: opening.py.

Told a path, it says what came of reading everything in the log there, appending to it and deleting from it:
`{"exit": …}`, the process's exit status, a signal if negative, and `"error"`, what was raised, or `"read"`,
what was read before the append.
"""

import json
import os
from typing import Any

from children import say, told
from intermission_storage import IndexEntry, Kind, LmdbEventLog, Record


def contents(log: LmdbEventLog) -> dict[str, Any]:
    """Read everything in a log."""
    return {
        "streams": {
            stream: [[record.seq, record.kind, record.data] for record in log.read(stream)]
            for stream in log.streams()
        },
        "positions": {stream: log.head(stream).position for stream in log.streams()},
        "index": [[list(entry.key), entry.value, entry.stream] for entry in log.index("i")],
    }


def use(path: str) -> dict[str, Any]:
    """Open a log, read, append and delete; return what was read, or raised, and of what classes that is."""
    try:
        with LmdbEventLog(path, sync=False) as log:
            found = contents(log)
            for stream in (*found["streams"], "new"):
                entry = IndexEntry("i", ("new", stream))
                log.append(
                    stream, [Record(Kind.EVENT, {"text": "x" * 600})], put=[entry], claim=True, release=True
                )
            for stream in found["streams"]:
                log.delete(stream)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it
        return {"error": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}
    return {"read": found}


def in_a_fork(path: str) -> dict[str, Any]:
    """Use a log in a child process, which a signal may end."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reading)
        with open(writing, "w") as out:
            json.dump(use(path), out)
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        said = answer.read()
    _, status = os.waitpid(pid, 0)
    return {"exit": os.waitstatus_to_exitcode(status), **json.loads(said or "{}")}


if __name__ == "__main__":
    while (told_path := told()) is not None:
        say(in_a_fork(told_path))
