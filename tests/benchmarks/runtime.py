"""How fast the whole runtime is, and how much it holds: `python tests/benchmarks/runtime.py`.

As `log.py`, it measures two things in turns, in processes of their own, and compares them: the runtime with
what LMDB alone allows, runs beside a thread that computes with runs beside none, a session with an actor that
has a thread, many sessions with few. The disk is pretended where the figures of the real one would say
little. How often a run makes it flush needs no clock, and is also a test: `tests/runs/test_counts.py`.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from bench import Row, run_parts, show, write  # noqa: E402 - this is a script, and nobody else sets its path
from flushes import compile_shim, in_child_of  # noqa: E402 - as above

PARTS_FILE = Path(__file__).resolve().parent / "runtime_parts.py"
FLUSH_US = 1000  # of the pretended disk
PATIENCE = 1800.0  # seconds


class Bench:
    """Runs the parts.

    Args:
        directory: Where the library that counts flushes is built.
        quick: Whether to take few sessions and little time, to see that it works.
    """

    def __init__(self, directory: Path, *, quick: bool) -> None:
        self._shim = compile_shim(directory)
        self._scale = 50 if quick else 1  # what large numbers are divided by
        self._tenth = 10 if quick else 1  # and others
        self._rounds = 1 if quick else 5
        self._seconds = 0.1 if quick else 0.3
        self._at_once = (1, 10) if quick else (1, 10, 100, 1000)

    def whole(self) -> None:
        header = ["disk", "sessions at once", "LMDB alone, records/s", "runtime, events/s"]
        costs = ["CPU a run", "flushes a run (<= 8 of 1, 0.25 of 100)", "waits of threads a run"]
        rows: list[Row] = []
        for disk, flush_us in (("1 ms", FLUSH_US), ("itself", None)):
            for at_once in self._at_once:
                turns = self._turns("whole", at_once, 5, self._seconds, flush_us=flush_us)
                found = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
                share = statistics.median(turn["rate"] / turn["limit"] for turn in turns)
                rates = [f"{found[name]:,.0f}" for name in ("limit", "rate")]
                spent = [milliseconds(found["cpu"]), f"{found['flushes']:.3f}", f"{found['waits']:.1f}"]
                rows.append([disk, f"{at_once:,}", *rates, f"{share:.1%}", *spent])
        show([*header, "share (of 100: >= 15 %, aim 40 %)", *costs], rows)

    def busy(self) -> None:
        rows: list[Row] = []
        for interval in (0.005, 0.0005):
            turns = self._turns("busy", interval, 100 // self._tenth, 5, flush_us=FLUSH_US)
            share = statistics.median(beside / alone for alone, beside in turns)
            rates = [f"{statistics.median(rates):,.0f}" for rates in zip(*turns, strict=True)]
            rows.append([f"{1000 * interval:g} ms", *rates, f"{share:.0%}"])
        show(["switch interval", "alone, events/s", "beside, events/s", "share (>= 1/3, aim 2/3)"], rows)

    def session(self) -> None:
        number = 2000 // self._tenth
        turns = [(self._child("session", number), self._child("thread", number)) for _ in range(self._rounds)]
        pairs = [(held["session"], bare + held["events"]) for held, bare in turns]
        ratio = statistics.median(threaded / session for session, threaded in pairs)
        sizes = [f"{statistics.median(side) / 1000:.1f} kB" for side in zip(*pairs, strict=True)]
        header = ["sessions", "a session", "an actor with a thread that holds its events"]
        show([*header, "ratio (<= 1/5, aim 1/11)"], [[f"{number:,}", *sizes, f"1/{ratio:.1f}"]])

    def resident(self) -> None:
        runs = 100 // self._tenth
        found = self._child("in_flight", 10_000 // self._scale, runs)
        row = [f"{10_000 // self._scale:,}", f"{found['idle']}", f"{runs}", f"{found['threads']}"]
        show(["sessions", "threads, idle (<= 16)", "in flight", f"threads (<= {16 + runs})"], [row])
        write("")
        runs, few, many = 1000 // self._scale, 1000 // self._scale, 100_000 // self._scale
        # The few before and after the many, which take their time: the machine may be another by then.
        turns = [
            (number, self._child("residents", number, runs, self._rounds)) for number in (few, many, few)
        ]
        rates = {
            number: statistics.median(rate for of, found in turns if of == number for rate in found["rates"])
            for number in (few, many)
        }
        rows = [
            [
                f"{number:,}",
                f"{found['fill']:,.0f}",
                f"{found['threads']}",
                f"{found['memory'] / 1e6:,.0f} MB",
                f"{statistics.median(found['rates']):,.0f}",
                f"{rates[number] / rates[few]:.2f}x",
            ]
            for number, found in turns
        ]
        header = [
            "sessions",
            "made, runs/s",
            "threads, idle (<= 16, aim 8)",
            "anonymous (<= 600 MB, aim 350)",
        ]
        show([*header, f"{runs:,} runs, runs/s", "to few (>= 0.6x, aim 0.75x)"], rows)

    def blocked(self) -> None:
        calls, times = 1000 // self._scale, ("they begin", "they block")
        turns = self._turns("blocked", calls, 5000 // self._scale)
        rows = [
            [
                f"{calls:,}",
                *(milliseconds(of_100(turn[when], rank)) for when in times for rank in (50, 100)),
                f"{turn['threads']:,}",
            ]
            for turn in turns
        ]
        goals = ["p50 (<= 1 ms, aim 0.2)", "worst (<= 250 ms, aim 50)"]
        show(["calls", *(f"{when}: {goal}" for when in times for goal in goals), "threads"], rows)

    def cancel(self) -> None:
        number = 200 // self._tenth
        rows = [
            [
                f"{number:,}",
                *(milliseconds(of_100(turn[what], rank)) for what in ("calls", "ends") for rank in (50, 99)),
                *(milliseconds(turn[what]) for what in ("loop", "last")),
            ]
            for turn in self._turns("cancels", number, flush_us=FLUSH_US)
        ]
        one = ["runs", "cancel(), p50", "p99", "to the durable end, p50", "p99"]
        show([*one, "all in one loop: the loop", "the last end (<= 1 s, aim 200 ms)"], rows)

    def _turns(self, part: str, *arguments: object, flush_us: int | None = None) -> list[Any]:
        return [self._child(part, *arguments, flush_us=flush_us) for _ in range(self._rounds)]

    def _child(self, part: str, *arguments: object, flush_us: int | None = None) -> Any:
        return in_child_of(self._shim, PARTS_FILE, part, *arguments, flush_us=flush_us, timeout=PATIENCE)


PARTS: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "whole": (
        "Sessions that each make five runs of four events, with a model that answers at once",
        Bench.whole,
    ),
    "busy": ("The same, flush 1 ms, beside a thread that computes", Bench.busy),
    "session": ("Memory of a session with ten events that has nothing to do", Bench.session),
    "resident": ("Many sessions in memory", Bench.resident),
    "blocked": ("Asking another actor while model calls block, from before they begin", Bench.blocked),
    "cancel": ("Cancelling runs whose model call blocks and cannot be interrupted, flush 1 ms", Bench.cancel),
}


def of_100(times: Sequence[float], rank: int) -> float:
    """Return the time that so many of a hundred do not exceed."""
    return sorted(times)[min(len(times) - 1, len(times) * rank // 100)]


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms"


def main() -> None:
    run_parts(
        "How fast the runtime is, and how much it holds.",
        PARTS,
        lambda directory, quick: Bench(directory, quick=quick),
    )


if __name__ == "__main__":
    main()
