"""Does runs in a stream that somebody else wants, too: runs.py PATH NAME RUNS.

A run is a claim, three records and a release. One that is refused because the stream is claimed is tried
again. It says "ready" and waits for a message; at the end it says how often it was refused.
"""

import sys

from children import say, told
from intermission_storage import ClaimedError, Kind, LmdbEventLog, Record


def run(log: LmdbEventLog, name: str) -> None:
    """Do a run, or raise ClaimedError before anything was written."""
    token = log.append("s", [Record(Kind.RUN_STARTED, {"run": name})], claim=True).token
    for _ in range(3):
        log.append("s", [Record(Kind.EVENT, {"run": name})], token=token)
    log.append("s", [Record(Kind.RUN_ENDED, {"run": name})], token=token, release=True)


def main(path: str, name: str, runs: str) -> None:
    """Do all runs."""
    say("ready")
    told()
    refused = 0
    with LmdbEventLog(path) as log:
        for number in range(int(runs)):
            while True:
                try:
                    run(log, f"{name}{number}")
                except ClaimedError:
                    refused += 1
                else:
                    break
    say(refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
