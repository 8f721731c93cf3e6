"""How soon a cancel ends a wait, and what a wait costs that need not wait: `tests/benchmarks/blocking.py`.

Each wait of `tests/support/waiting.py` is cancelled alone, again and again, and a hundred times at once.
"""

import queue
import statistics
import sys
import threading
import time
import timeit
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from bench import run_parts, show  # noqa: E402 - this is a script, and nobody else sets its path
from intermission import Cancelled, CancelScope, blocking  # noqa: E402 - as above
from waiting import WAITS, Attempt, Wait, until_still  # noqa: E402 - as above


@dataclass(frozen=True)
class Bench:
    """How much is measured."""

    rounds: int
    together: int
    calls: int

    @classmethod
    def make(cls, _: Path, quick: bool) -> "Bench":
        """Return a small one, or the real one."""
        return cls(rounds=1, together=2, calls=10) if quick else cls(rounds=50, together=100, calls=100_000)


def latencies(wait: Wait, count: int) -> list[float]:
    """Cancel `count` of a wait at once; return how many milliseconds later each has raised."""
    with ExitStack() as stack:
        scope = CancelScope.child_of(None)
        attempts = [Attempt(wait.begin(stack), scope=scope) for _ in range(count)]
        until_still(*(attempt.thread for attempt in attempts))
        began = time.monotonic()
        scope.cancel()
        assert all(isinstance(attempt.ended(), Cancelled) for attempt in attempts)
        return [(attempt.ended_at - began) * 1e3 for attempt in attempts]


def measure_latency(bench: Bench) -> None:
    """Show how soon each wait ends."""
    rows: list[list[str]] = []
    for wait in WAITS:
        alone = sorted(latencies(wait, 1)[0] for _ in range(bench.rounds))
        children = wait.name in {"run", "popen", "communicate", "wait for a process"}
        count = min(bench.together, 20) if children else bench.together
        together = max(latencies(wait, count))
        figures = (statistics.median(alone), alone[-1], together)
        rows.append([wait.name, *(f"{figure:.2f} ms" for figure in figures), str(count)])
    show(["wait", "alone, median", "alone, worst", "together, the last", "of"], rows)


def measure_cost(bench: Bench) -> None:
    """Show what a wait costs that need not wait."""
    items: queue.Queue[int] = queue.Queue()
    lock, semaphore, event = threading.Lock(), threading.BoundedSemaphore(1), threading.Event()
    future: Future[int] = Future()
    future.set_result(1)
    event.set()

    def through(put: Callable[..., None], get: Callable[..., int], *queues: Any) -> None:
        put(*queues, 1)
        get(*queues)

    def held(lock: Any) -> None:
        with lock:
            pass

    def held_by_ours(lock: Any) -> None:
        with blocking.locked(lock):
            pass

    pairs: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "put and get",
            partial(through, items.put, items.get),
            partial(through, blocking.put, blocking.get, items),
        ),
        ("locked, a lock", partial(held, lock), partial(held_by_ours, lock)),
        ("locked, a semaphore", partial(held, semaphore), partial(held_by_ours, semaphore)),
        ("wait, an event", event.wait, partial(blocking.wait, event)),
        ("result", future.result, partial(blocking.result, future)),
    ]
    with CancelScope() as scope:
        rows = [
            [name, f"{each(plain, bench):.2f} µs", f"{each(ours, bench):.2f} µs"]
            for name, plain, ours in pairs
        ]
        check = f"{each(scope.check, bench) * 1e3:.0f} ns"
        rows.append(["check() of a scope", "", check])
    show(["call", "plain", "ours"], rows)


def each(call: Callable[[], object], bench: Bench) -> float:
    """Return how many microseconds a call takes, the best of five tries."""
    return min(timeit.repeat(call, number=bench.calls, repeat=5)) / bench.calls * 1e6


PARTS = {
    "latency": ("from the cancel to the exception", measure_latency),
    "cost": ("of what need not wait", measure_cost),
}

if __name__ == "__main__":
    run_parts(__doc__ or "", PARTS, Bench.make)
