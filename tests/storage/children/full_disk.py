"""Fills a small disk of its own: full_disk.py DIRECTORY, in a mount namespace of its own.

It mounts a disk of one MiB at the directory, puts a ballast of a quarter into it, and appends until it is
refused. It says how many appends succeeded, how the refusal was called, and what a reader finds then. When
the ballast is gone it appends once more, and says what is there after the log was opened again.
"""

import subprocess
import sys
from pathlib import Path

from children import say
from intermission_storage import Kind, LmdbEventLog, Record, StorageError

RECORD = Record(Kind.EVENT, {"text": "x" * 1000})


def fill(log: LmdbEventLog) -> tuple[int, str]:
    """Append until it is refused; return how many succeeded, and the refusal."""
    written = 0
    while True:
        try:
            log.append("s", [RECORD])
        except StorageError as error:
            return written, type(error).__name__
        written += 1


def main(directory: str) -> None:
    """Fill the disk, then make room."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], stderr=subprocess.PIPE
    )
    if mounted.returncode:
        say({"cannot mount": mounted.stderr.decode()})
        return
    ballast = Path(directory, "ballast")
    ballast.write_bytes(bytes(1 << 18))
    with LmdbEventLog(Path(directory, "log")) as log:
        written, refusal = fill(log)
        say({"written": written, "refusal": refusal, "read": len(log.read("s"))})
        ballast.unlink()
        log.append("s", [RECORD, RECORD])
    with LmdbEventLog(Path(directory, "log")) as log:
        say({"read": len(log.read("s"))})


if __name__ == "__main__":
    main(*sys.argv[1:])
