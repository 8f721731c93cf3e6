"""How fast the event log is, against what LMDB and the disk allow: `python tests/benchmarks/log.py`.

Figures of one machine say little about another, so each part does two things in turns and compares them. Each
runs in a process of its own, under `flushshim.c`: with the flushes of the disk below TMPDIR, or with a
pretended disk on which a flush takes a millisecond, always. The goals, and what was measured:
`docs/performance.md`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from bench import run_parts, show, write  # noqa: E402 - this is a script, and nobody else sets its path
from flushes import compile_shim, in_child_of  # noqa: E402 - as above

PARTS_FILE = Path(__file__).resolve().parent / "log_parts.py"
FLUSH_US = 1000  # of the pretended disk
PATIENCE = 240.0  # seconds


class Bench:
    """Runs the parts.

    Args:
        directory: Where logs that several parts use are made.
        quick: Whether to take small logs and little time, to see that it works.
    """

    def __init__(self, directory: Path, *, quick: bool) -> None:
        self._directory = directory
        self._shim = compile_shim(directory)
        self._each = 10 if quick else 1000
        self._streams = 10_000 if quick else 100_000
        self._pairs = 1 if quick else 5
        # Many short rounds: what else runs on the machine should meet both sides of a pair.
        self._rounds = 1 if quick else 11
        self._seconds = 0.1 if quick else 0.25

    def appends(self) -> None:
        header = ["disk", "streams", "LMDB alone, records/s", "log, records/s", "in a commit"]
        rows = [
            self._child("appends", disk, streams, self._rounds, self._seconds, flush_us=flush_us)
            for disk, flush_us in (("1 ms", FLUSH_US), ("itself", None))
            for streams in (1, 10, 100, 1000)
        ]
        show([*header, "share (>= 80 %, aim 93 %)", "share, encoded before"], rows)

    def busy(self) -> None:
        rows = [
            self._child("busy", interval, self._rounds, self._seconds, flush_us=FLUSH_US)
            for interval in (0.005, 0.0005)
        ]
        show(["switch interval", "alone, records/s", "beside, records/s", "share (>= 33 %, aim 67 %)"], rows)

    def verify(self) -> None:
        show(
            ["records", "file", "verify", "of which pages"],
            [self._child("verifying", self._filled(self._each))],
        )

    def growth(self) -> None:
        small, large = self._filled(1), self._filled(self._each)
        rows = [
            self._child("growth", disk, small, large, sync, self._pairs, flush_us=flush_us)
            for disk, sync, flush_us in (
                ("1 ms", True, FLUSH_US),
                ("itself", True, None),
                ("no sync", False, None),
            )
        ]
        lone = ["one, 1,000", f"one, {1000 * self._each:,}", "times (<= 1.2x, aim 1.05x)"]
        together = ["100, 1,000, records/s", f"100, {1000 * self._each:,}", "share (>= 70 %)"]
        show(["disk", *lone, *together], rows)

    def open_runs(self) -> None:
        rows = [self._child("open_runs", self._streams, self._pairs)]
        show(["streams", "index", "heads", "share (<= 5 %, aim 1 %)"], rows)

    def _child(self, part: str, *arguments: object, flush_us: int | None = None) -> Any:
        return in_child_of(self._shim, PARTS_FILE, part, *arguments, flush_us=flush_us, timeout=PATIENCE)

    def _filled(self, each: int) -> str:
        path = self._directory / f"filled-{each}"
        if not path.exists():
            took = self._child("fill", str(path), 1000, each)
            write(f"made a log of {1000 * each:,} records in {took:.1f} s")
        return str(path)


PARTS: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "appends": ("Appends of 300 bytes, the next of a stream when its last is durable", Bench.appends),
    "busy": ("The same of 100 streams, flush 1 ms, beside a thread that computes", Bench.busy),
    "verify": ("verify", Bench.verify),
    "growth": ("A log that has grown", Bench.growth),
    "open-runs": ("Listing 1,000 open runs", Bench.open_runs),
}


def main() -> None:
    run_parts("How fast the event log is.", PARTS, lambda directory, quick: Bench(directory, quick=quick))


if __name__ == "__main__":
    main()
