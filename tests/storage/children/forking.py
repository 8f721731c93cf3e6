"""Opens a log, claims the stream "s", and forks: forking.py PATH.

The child of the fork says what comes of each use of the log, as `{"use": …, "outcome": …}`; outcomes are
names of errors. Then it closes the log, forgets it, and lives until the input ends. After that the parent
says whether its claim still lives and its appends still succeed, and lives until it is killed.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable

from children import say
from intermission_storage import Kind, LmdbEventLog, Record

RECORD = Record(Kind.EVENT, {})


def uses(log: LmdbEventLog, token: int | None) -> dict[str, Callable[[], object]]:
    """Return everything that may be done with a log but closing it."""
    return {
        "append": lambda: log.append("s", [RECORD], token=token),
        "submit": lambda: log.submit("s", [RECORD], lambda _: None, token=token),
        "delete": lambda: log.delete("s", token=token),
        "read": lambda: log.read("s"),
        "follow": lambda: log.follow("s", timeout=0),
        "head": lambda: log.head("s"),
        "streams": lambda: log.streams(),
        "index": lambda: log.index("i"),
        "open": lambda: LmdbEventLog(log.path),
        "open to read": lambda: LmdbEventLog(log.path, read_only=True),
    }


def outcome(use: Callable[[], object]) -> str:
    """Return the name of the error that a use raises."""
    try:
        use()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it
        return type(error).__name__
    return "nothing raised"


def forked(log: LmdbEventLog, token: int | None) -> None:
    """Use the log in every way, then close it."""
    for name, use in uses(log, token).items():
        say({"use": name, "outcome": outcome(use)})
    log.close()
    say({"use": "close", "outcome": outcome(log.close)})
    say({"use": "open after close", "outcome": outcome(lambda: LmdbEventLog(log.path))})
    with LmdbEventLog(f"{log.path}.of-the-fork") as other:
        say({"use": "another log", "outcome": outcome(lambda: other.append("s", [RECORD]))})


def main(path: str) -> None:
    """Fork with an open log."""
    log = LmdbEventLog(path)
    token = log.append("s", [RECORD], claim=True).token
    reading, writing = os.pipe()
    if os.fork() == 0:
        forked(log, token)
        del log
        gc.collect()
        os.write(writing, b"x")
        sys.stdin.read()
        return
    os.close(writing)
    os.read(reading, 1)
    claim = log.head("s").claim
    say(
        {
            "alive": claim is not None and claim.alive,
            "append": outcome(lambda: log.append("s", [RECORD], token=token)),
        }
    )
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
