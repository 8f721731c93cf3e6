"""How long until a program can do something: `python tests/benchmarks/startup.py`.

Each system imports itself, and answers one message of one agent with a model that answers at once, which is
the least that its users can do with it. Every time is that of a whole process, from its start; an empty
program stands beside them. They take turns, and the medians are shown. The others are installed from PyPI,
each into a virtual environment of its own in `.bench/`, which is kept.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bench import show, write
from startup_programs import PROGRAMS
from tree import ROOT, environment

PLACE = ROOT / ".bench"
PATIENCE = 120.0  # seconds for one process


class Times(NamedTuple):
    """Seconds from the start of a process: until its import is done, and until it shows its first event."""

    imported: float
    event: float


def python_of(name: str) -> str:
    """Return the interpreter that has a system, installed now if it is not there."""
    if name in {"nothing", "intermission"}:
        return sys.executable
    python = PLACE / name / "bin" / "python"
    if not python.exists():
        write(f"installing {name}")
        subprocess.run([sys.executable, "-m", "venv", str(PLACE / name)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", name], check=True)
    return str(python)


def seconds(python: str, program: str, environ: Mapping[str, str]) -> float:
    """Return how long a program takes from the start of its process until it writes a line."""
    with tempfile.TemporaryDirectory(prefix="intermission-bench-") as place:
        begun = time.perf_counter()
        with subprocess.Popen(
            [python, "-c", program],
            cwd=place,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            took = time.perf_counter() - begun
            process.communicate(timeout=PATIENCE)
        if process.returncode or not line.startswith("EVENT"):
            raise SystemExit(f"a program of {python} ended with {process.returncode}:\n{program}")
    return took


def measure(names: list[str], rounds: int) -> dict[str, Times]:
    """Return the medians of each system; one round before them is not counted."""
    found: dict[str, list[Times]] = {name: [] for name in names}
    pythons = {name: python_of(name) for name in names}
    environ = environment()
    for round_ in range(rounds + 1):
        for name in names:
            importing, program = PROGRAMS[name]
            times = Times(
                seconds(pythons[name], f"{importing}\nprint('EVENT', flush=True)", environ),
                seconds(pythons[name], program, environ),
            )
            if round_:
                found[name].append(times)
    return {
        name: Times(
            statistics.median(one.imported for one in all_), statistics.median(one.event for one in all_)
        )
        for name, all_ in found.items()
    }


def main() -> None:
    """Measure, and show a table."""
    parser = argparse.ArgumentParser(description="How long until a program can do something.")
    parser.add_argument("systems", nargs="*", metavar="system", help=f"{', '.join(PROGRAMS)}; by default all")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    if unknown := set(chosen.systems) - set(PROGRAMS):
        parser.error(f"there is no system {', '.join(sorted(unknown))}: there are {', '.join(PROGRAMS)}")
    names = list(dict.fromkeys(["nothing", *(chosen.systems or PROGRAMS)]))
    medians = measure(names, chosen.rounds)
    bare = medians["nothing"].imported
    show(
        ["system", "import, ms", "first event, ms", "import without Python's own start, ms"],
        [
            [
                name,
                f"{times.imported * 1000:.0f}",
                f"{times.event * 1000:.0f}",
                f"{(times.imported - bare) * 1000:.0f}",
            ]
            for name, times in medians.items()
        ],
    )


if __name__ == "__main__":
    main()
