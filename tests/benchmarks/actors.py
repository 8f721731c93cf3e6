"""How fast actors are beside Pykka's own, a thread each: `python tests/benchmarks/actors.py`.

Figures of one machine say little about another, so both sides do each thing in turns, every time in a process
of its own, and the medians stand side by side, with the goal for their ratio.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pykka

from intermission.kernel.actor import Actor
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.system import ActorSystem

PATIENCE = 300.0  # seconds for one measurement
SIDES = ("threads", "pool")

Figures = dict[str, float]


class Threaded(pykka.ThreadingActor):
    """Answers with the message."""

    use_daemon_thread = True

    def on_receive(self, message: object) -> object:
        return message


class Pooled(Actor):
    """Answers with the message."""

    def on_receive(self, message: object) -> object:
        return message


Start = Callable[[], "pykka.ActorRef[Any]"]


def starter(side: str) -> Start:
    """Return what starts an actor of one side: `threads`, `pool`, or `pool` and how many threads it has."""
    if side == "threads":
        return Threaded.start
    threads = int(side.removeprefix("pool") or 0)
    system = ActorSystem(dispatcher=Dispatcher(threads=threads) if threads else None)
    return lambda: system.start(Pooled)


def status(field: str) -> int:
    """Return a number from what Linux tells of this process; memory is in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            number, *unit = value.split()
            return int(number) * (1024 if unit else 1)
    raise LookupError(field)


def fan(start: Start, actors: int, messages: int) -> Figures:
    """Tell many actors in turn; the clock stops when all is handled."""
    refs = [start() for _ in range(actors)]
    for ref in refs:
        ref.ask(0, timeout=PATIENCE)
    begin = time.perf_counter()
    for number in range(messages):
        refs[number % actors].tell(number)
    for ref in refs:
        ref.ask(0, timeout=PATIENCE)
    return {"rate": messages / (time.perf_counter() - begin)}


def one(start: Start, messages: int) -> Figures:
    """Tell one actor; the clock stops when all is handled."""
    return fan(start, 1, messages)


def ask(start: Start, asks: int) -> Figures:
    """Ask one actor, from outside, one question after another."""
    ref = start()
    ref.ask(0, timeout=PATIENCE)
    times: list[float] = []
    begin = time.perf_counter()
    for number in range(asks):
        before = time.perf_counter()
        ref.ask(number, timeout=PATIENCE)
        times.append(time.perf_counter() - before)
    whole = time.perf_counter() - begin
    times.sort()
    return {"rate": asks / whole, "p50": times[asks // 2] * 1e6, "p99": times[asks * 99 // 100] * 1e6}


def idle(start: Start, actors: int) -> Figures:
    """Start many actors that do nothing."""
    kept = [start()]
    kept[0].ask(0, timeout=PATIENCE)
    gc.collect()
    before = status("VmRSS")
    begin = time.perf_counter()
    kept += [start() for _ in range(actors)]
    started = time.perf_counter() - begin
    kept[-1].ask(0, timeout=PATIENCE)
    gc.collect()
    memory = (status("VmRSS") - before) / actors
    for ref in kept:
        ref.tell(0)
    kept[-1].ask(0, timeout=PATIENCE)
    gc.collect()
    after = (status("VmRSS") - before) / actors
    return {"start": started / actors * 1e6, "memory": memory, "after": after, "threads": status("Threads")}


PARTS: dict[str, Callable[..., Figures]] = {"fan": fan, "one": one, "ask": ask, "idle": idle}


def in_child(part: str, side: str, *sizes: int) -> Figures:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--part", part, side, *map(str, sizes)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if finished.returncode:
        raise SystemExit(f"{part} of {side} failed:\n{finished.stderr}")
    figures: Figures = json.loads(finished.stdout)
    return figures


def in_turns(part: str, *sizes: int, rounds: int, sides: tuple[str, ...]) -> dict[str, Figures]:
    """Measure all sides in turns, and return the medians of each."""
    rows: dict[str, list[Figures]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            rows[side].append(in_child(part, side, *sizes))
    return {
        side: {name: statistics.median(row[name] for row in rows[side]) for name in rows[side][0]}
        for side in sides
    }


def show(what: str, measured: dict[str, Figures], figure: str, unit: str, goal: str = "") -> None:
    """Print one row: the figure of each side, and the ratio of each to the first with the goal for it."""
    first, *others = measured
    base = measured[first][figure]
    cells = [f"{base:,.1f}"]
    cells += [f"{measured[side][figure]:,.1f} ({measured[side][figure] / base:.3g}x)" for side in others]
    sys.stdout.write(f"| {what}, {unit} | {' | '.join(cells)} | {goal} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few and small, to see that it works")
    parser.add_argument("--pools", action="store_true", help="also pools of one, two and four threads")
    arguments = parser.parse_args()
    rounds, scale = (1, 100) if arguments.quick else (5, 1)
    sides = (*SIDES, "pool1", "pool2", "pool4") if arguments.pools else SIDES
    sys.stdout.write(f"| | {' | '.join(sides)} | goal |\n|{' --- |' * (len(sides) + 2)}\n")

    def turns(part: str, *sizes: int) -> dict[str, Figures]:
        return in_turns(part, *(max(1, size // scale) for size in sizes), rounds=rounds, sides=sides)

    show("tell 1,000 actors", turns("fan", 1000, 100_000), "rate", "messages/s", ">= 10x, aim 25x")
    show("tell one actor", turns("one", 100_000), "rate", "messages/s")
    asked = turns("ask", 20_000)
    show("ask", asked, "rate", "answers/s", ">= 0.7x, aim 0.9x")
    show("ask, p50", asked, "p50", "us")
    show("ask, p99", asked, "p99", "us")
    for actors in (1000, 10_000):
        held = turns("idle", actors)
        name = f"{actors:,} idle actors"
        show(f"{name}: start one", held, "start", "us", "<= 0.1x, aim 0.025x")
        show(f"{name}: memory of one", held, "memory", "bytes", "<= 1,500 bytes")
        show(f"{name}: after a message", held, "after", "bytes", "<= 0.2x, aim 0.09x")
        show(f"{name}: threads", held, "threads", "in all", "<= 8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        part, side, *sizes = sys.argv[2:]
        result = PARTS[part](starter(side), *map(int, sizes))
        sys.stdout.write(json.dumps(result))
        sys.stdout.flush()
        os._exit(0)  # thousands of threads need not be ended one by one
    main()
