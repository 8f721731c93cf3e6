"""Appends to a log that has to grow again and again: growing.py PATH NAME APPENDS.

It says "ready" before the log is opened and waits for a message; at the end it says "done".
"""

import sys

from children import say, told
from intermission_storage import Appended, Kind, LmdbEventLog, Record, StorageError


def main(path: str, name: str, appends: str) -> None:
    """Append, many at a time, and raise what was refused."""
    refused: list[StorageError] = []

    def done(outcome: Appended | StorageError) -> None:
        if isinstance(outcome, StorageError):
            refused.append(outcome)

    say("ready")
    told()
    with LmdbEventLog(path, map_size=64 << 10) as log:
        for number in range(int(appends)):
            record = Record(Kind.EVENT, {"number": number, "text": "x" * 400})
            log.submit(name, [record], done)
            if number % 5 == 0:
                log.append("both", [record])
    if refused:
        raise refused[0]
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
