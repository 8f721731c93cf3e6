"""What a call of a tool with `isolation="process"` costs: `python tests/benchmarks/processes.py [rounds]`.

Warm: one that has served a call before. Cold: a process for each call; CPU is what that process uses, which a
busy machine changes least. Each with a function that imports nothing, and with one whose module imports the
runtime.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import plain_tools
import process_tools
from intermission import FunctionTool
from intermission.isolation.children import Children
from intermission.kernel.timer import Timer
from intermission.kernel.workers import Workers
from turns import context


class Alone:
    """An owner whose calls leave nothing behind."""

    grace = 5.0

    def __init__(self, children: Children) -> None:
        self.children = children

    def left_behind(self, call_id: str, process: object) -> None:
        """See `Owner`."""


def median(call: Callable[[], object], rounds: int) -> float:
    """Return the median of the times of a call, in seconds."""
    times = list[float]()
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def used_by_children() -> float:
    """Return the CPU time of all children that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(rounds: int) -> None:
    """Measure, and print a line for each case."""
    timer = Timer()
    workers = Workers(timer=timer)
    children = Children(timer, workers)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("imports nothing", plain_tools.add, {"a": 1}),
        ("imports the runtime", process_tools.who, {}),
    ]
    sys.stdout.write(f"{'function':24}{'thread':>12}{'warm':>12}{'cold':>12}{'CPU':>12}   ms\n")
    for name, func, args in cases:
        warm = context(owner=Alone(children))
        row = [
            median(partial(FunctionTool(func).call, args, context()), rounds * 10),
            median(partial(FunctionTool(func, isolation="process").call, args, warm), rounds * 10),
        ]
        before = used_by_children()
        row.append(median(partial(FunctionTool(func, isolation="process").call, args, context()), rounds))
        row.append((used_by_children() - before) / rounds)
        sys.stdout.write(f"{name:24}" + "".join(f"{seconds * 1000:12.3f}" for seconds in row) + "\n")
    children.close()
    workers.close(5)
    timer.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
