"""What a cancel does, here and in other frameworks: `python tests/comparison/cancel.py`.

Each framework has an agent with one tool and one session, and is cancelled in four places, each in a process
of its own: in a tool that blocks its thread for 4 s and looks at nothing, in an async one, while it waits for
the answer of a model, and while that streams. It is cancelled as its own documentation says. The model is a
server of this script, so what is open is what the model sees. Then the session gets its next message, and the
server refuses what a real service would refuse.

The others stand in virtual environments of their own in `.bench/cancel/`, which are kept; `--install` makes
them.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bench import Row, show, write
from frameworks import FRAMEWORKS, PLACE, install, python_of
from tree import ROOT, environment
from two_models import CASES, SceneServer

ADAPTERS = Path(__file__).parent / "adapters"
PATIENCE = 60.0  # seconds for a process to end when its scene is over


class Seen(NamedTuple):
    """What came of a scene."""

    versions: dict[str, str]
    control: float
    ended: str
    held: int
    tool_runs: bool
    says: str
    went_on: bool
    next: str


def play(name: str, case: str, python: Path) -> Seen:
    """Play a scene in a process, and return what came of it."""
    environ = environment()
    places = [str(ROOT / "tests" / "support")]
    if not FRAMEWORKS[name].packages:
        places.insert(0, environ["PYTHONPATH"])
    environ["PYTHONPATH"] = ":".join(places)
    script = ADAPTERS / f"{FRAMEWORKS[name].adapter}.py"
    with (
        SceneServer(case) as server,
        subprocess.Popen(
            [str(python), str(script), case, server.url],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            return _watch(process, server)
        except BaseException:
            process.kill()
            raise


def _watch(process: "subprocess.Popen[str]", server: SceneServer) -> Seen:
    assert process.stdin
    assert process.stdout
    child = process.stdin

    def begun() -> None:
        child.write("begun\n")
        child.flush()

    server.begun = begun
    seen: dict[str, Any] = {}
    for line in process.stdout:
        if not line.startswith("{"):
            continue  # what a framework prints
        said: dict[str, Any] = json.loads(line)
        seen |= said
        if "looked" in said:
            seen["held"] = server.held
    _, errors = process.communicate(timeout=PATIENCE)
    if process.returncode or "error" not in seen:
        raise SystemExit(f"{' '.join(map(str, process.args))} ended with {process.returncode}:\n{errors}")  # type: ignore[arg-type]  # a list of texts
    return Seen(
        versions=seen["versions"],
        control=seen["back"],
        ended=seen["how"],
        held=seen["held"],
        tool_runs=seen["tool_runs"],
        says=seen["says"],
        went_on=server.went_on,
        next=_next(seen["error"], server),
    )


def _next(error: str, server: SceneServer) -> str:
    """Return whether the next run worked, and what its model was told of the call."""
    if error:
        return f"no: {'; '.join(server.problems) or error}"
    if "tool" not in server.case:
        return "works"
    told = " ".join(server.told or [])
    return f"works; told `{told[:60]}`" if told else "works; the call is gone"


def row(name: str, case: str, seen: Seen) -> Row:
    """Return a scene's row of the table."""
    compared = FRAMEWORKS[name]
    how = compared.plain if case != "streaming model" else compared.streaming or compared.plain
    runs = "" if "tool" not in case else "runs" if seen.tool_runs else "has ended"
    if seen.tool_runs:
        runs += f", {seen.says or 'nobody says so'}"
    then = seen.next + ("; the model was asked again for the cancelled run" if seen.went_on else "")
    return [name, case, how, f"{seen.control:.3f}", seen.ended, str(seen.held), runs, then]


def main() -> None:
    """Compare, and show a table."""
    parser = argparse.ArgumentParser(description="What a cancel does, here and in other frameworks.")
    parser.add_argument("frameworks", nargs="*", metavar="framework", help=f"{', '.join(FRAMEWORKS)}; all")
    parser.add_argument("--install", action="store_true", help="make the environments that are missing")
    parser.add_argument("--place", type=Path, default=PLACE, help="where the environments are")
    chosen = parser.parse_args()
    if unknown := set(chosen.frameworks) - set(FRAMEWORKS):
        names = ", ".join(FRAMEWORKS)
        parser.error(f"there is no framework {', '.join(sorted(unknown))}: there are {names}")
    rows: list[Row] = []
    for name in chosen.frameworks or FRAMEWORKS:
        if chosen.install:
            install(name, chosen.place)
        python = python_of(name, chosen.place)
        if not python.exists():
            packages = " ".join(FRAMEWORKS[name].packages)
            write(f"NOT INSTALLED: {name}. Run this with --install, or {python} -m pip install {packages}")
            rows.append([name, *["not installed"] * 7])
            continue
        scenes = {case: play(name, case, python) for case in CASES}
        rows += (row(name, case, seen) for case, seen in scenes.items())
        versions = scenes[CASES[0]].versions
        write(", ".join(f"{package} {version}" for package, version in versions.items()))
    header = ["framework", "cancelled in", "by", "control back, s", "the caller", "requests open after 1 s"]
    show([*header, "tool after 1 s", "next run"], rows)


if __name__ == "__main__":
    main()
