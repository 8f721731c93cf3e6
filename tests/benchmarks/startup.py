"""How long until a program can do something: `python tests/benchmarks/startup.py`.

Each system imports itself, and answers one message of one agent with a model that answers at once, which is
the least that its users can do with it. Every time is that of a whole process, from its start; an empty
program stands beside them. The processor time is that of the process until its end, closing included: what
else runs on the machine disturbs it less. They take turns, and the medians are shown.

All find their bytecode, as what is installed does: the round that is not counted makes it. The others are
installed from PyPI, each into a virtual environment of its own in `.bench/`, which is kept.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bench import show, write
from startup_programs import PROGRAMS
from tree import ROOT, environment

PLACE = ROOT / ".bench"
PATIENCE = 120.0  # seconds for one process


class Times(NamedTuple):
    """What one process takes, in milliseconds: until it writes its line, and of processors until its end."""

    wall: float
    cpu: float


class Start(NamedTuple):
    """How a system starts: a process that only imports it, and one that shows its first event."""

    imported: Times
    event: Times


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


def processors() -> float:
    """Return the seconds of processor time that the children which have ended took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def times(python: str, program: str, environ: Mapping[str, str]) -> Times:
    """Run a program in a process of its own, and return what it took."""
    with tempfile.TemporaryDirectory(prefix="intermission-bench-") as place:
        before, begun = processors(), time.perf_counter()
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
    return Times(took * 1000, (processors() - before) * 1000)


def median(all_: Sequence[Times]) -> Times:
    """Return the median of each of the two, apart."""
    return Times(statistics.median(one.wall for one in all_), statistics.median(one.cpu for one in all_))


def measure(names: list[str], rounds: int) -> dict[str, Start]:
    """Return the medians of each system; one round before them is not counted."""
    found: dict[str, list[Start]] = {name: [] for name in names}
    pythons = {name: python_of(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="intermission-bench-") as bytecode:
        environ = {**environment(), "PYTHONPYCACHEPREFIX": bytecode}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for round_ in range(rounds + 1):
            for name in names:
                importing, program = PROGRAMS[name]
                start = Start(
                    times(pythons[name], f"{importing}\nprint('EVENT', flush=True)", environ),
                    times(pythons[name], program, environ),
                )
                if round_:
                    found[name].append(start)
    return {
        name: Start(median([one.imported for one in all_]), median([one.event for one in all_]))
        for name, all_ in found.items()
    }


def main() -> None:
    """Measure, and show a table."""
    parser = argparse.ArgumentParser(description="How long until a program can do something.")
    parser.add_argument("systems", nargs="*", metavar="system", help=f"{', '.join(PROGRAMS)}; by default all")
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    if unknown := set(chosen.systems) - set(PROGRAMS):
        parser.error(f"there is no system {', '.join(sorted(unknown))}: there are {', '.join(PROGRAMS)}")
    names = list(dict.fromkeys(["nothing", *(chosen.systems or PROGRAMS)]))
    medians = measure(names, chosen.rounds)
    show(
        ["system", "import, ms", "its CPU, ms", "first event, ms", "its CPU, ms"],
        [
            [name, *(f"{figure:.0f}" for figure in (*start.imported, *start.event))]
            for name, start in medians.items()
        ],
    )


if __name__ == "__main__":
    main()
