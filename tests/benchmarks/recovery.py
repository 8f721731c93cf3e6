"""How long a worker takes to find and continue what was left, and what long runs cost a step.

`python tests/benchmarks/recovery.py`. The goals, and what was measured: `docs/performance.md`.
"""

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bench import run_parts, show
from intermission import (
    App,
    Content,
    Event,
    FunctionCall,
    LlmAgent,
    Part,
    ResumabilityConfig,
    RunConfig,
    Runner,
)
from intermission.keys import SessionKey
from intermission.models import ModelRequest, ModelResponse
from intermission.runs.result import RunStatus, Verdict
from intermission.sessions.records import (
    event_record,
    open_run,
    run_ended,
    run_started,
    session_created,
    session_entry,
)
from intermission.testing import ScriptedModel
from intermission_storage import LmdbEventLog
from tree import ROOT, environment

APP = "bench"
PATIENCE = 300.0  # seconds
WINDOW = 100  # steps around the one that is looked at
TEXT = "x" * 500  # what a tool is told, and says


def app_of(model: Any, *tools: Any) -> App:
    """Return an app whose runs can be gone on with."""
    return App(
        APP, LlmAgent("agent", model, tools=tools), resumability_config=ResumabilityConfig(is_resumable=True)
    )


def fill(path: Path, sessions: int, unfinished: int) -> None:
    """Make a log of so many sessions of one run each, some of which have no end."""
    completed = Verdict(RunStatus.COMPLETED)
    with LmdbEventLog(path, sync=False) as log:
        for number in range(sessions):
            key, run = SessionKey(APP, f"u{number % 1000}", f"s{number}"), f"e-{number}"
            event = Event(
                invocation_id=run, author="user", timestamp=float(number), content=Content.user("Hello.")
            )
            created = session_created(key, float(number))
            records = [created, run_started(run, float(number)), event_record(event)]
            entries = [session_entry(key, float(number), created.data["id"])]
            if number % (sessions // unfinished):
                records.append(run_ended(run, completed, float(number)))
            else:
                entries.append(open_run(key, run, float(number)))
            log.submit(key.stream, records, lambda _: None, put=entries)


def cold(path: str) -> dict[str, float]:
    """Recover as a worker does that has just started, and return what it took."""
    begun = time.perf_counter()
    with Runner(app_of(ScriptedModel(default="Hello again.")), log=path) as runner:
        opened = time.perf_counter()
        runs = runner.recover()
        listed = time.perf_counter()
        next(iter(runs[0]))
        first = time.perf_counter()
        for run in runs:
            run.cancel()
        begun_all = time.perf_counter()
        report = runner.recover_all()
        over = time.perf_counter()
    return {
        "runs": len(runs),
        "open": opened - begun,
        "list": listed - opened,
        "first": first - listed,
        "all": over - begun_all,
        "continued": len(report.continued),
    }


class Steps:
    """A model that calls its tool so many times, and keeps when it was asked. It does not look at what."""

    name = "steps"

    def __init__(self) -> None:
        self._left = 0
        self.asked: list[tuple[float, float]] = []  # by the clock, and in the processor's time

    def begin(self, steps: int) -> None:
        """Call the tool so many times from now on."""
        self._left = steps
        self.asked = []

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self.asked.append((time.perf_counter(), time.process_time()))
        self._left -= 1
        call = FunctionCall(id="", name="echo", args={"text": TEXT})
        part = Part(function_call=call) if self._left >= 0 else Part(text="done")
        yield ModelResponse(content=Content("model", (part,)))

    def step_at(self, number: int) -> tuple[float, float]:
        """Return what a step takes around one of a number, by the clock and in the processor's time."""
        around = self.asked[number - WINDOW // 2 : number + WINDOW // 2]
        took = [(end - begun, used - before) for (begun, before), (end, used) in itertools.pairwise(around)]
        clock, processor = zip(*took, strict=True)
        return statistics.median(clock), statistics.median(processor)


def echo(text: str) -> str:
    """Say it again."""
    return text


class Bench:
    """Runs the parts.

    Args:
        directory: Where the logs are made.
        quick: Whether to take little, to see that it works.
    """

    def __init__(self, directory: Path, *, quick: bool) -> None:
        self._directory = directory
        self._sizes = [(1_000, 10)] if quick else [(10_000, 1_000), (100_000, 1_000)]
        self._steps = 800 if quick else 2_000

    def cold(self) -> None:
        rows: list[list[str]] = []
        for sessions, unfinished in self._sizes:
            path = self._directory / f"cold {sessions}"
            fill(path, sessions, unfinished)
            command = [sys.executable, str(Path(__file__).resolve()), "--cold", str(path)]
            finished = subprocess.run(
                command, env=environment(ROOT), capture_output=True, text=True, timeout=PATIENCE, check=True
            )
            took = json.loads(finished.stdout)
            milliseconds = [f"{took[part] * 1000:.1f}" for part in ("open", "list", "first", "all")]
            rows.append([f"{sessions:,}", f"{took['runs']:,}", *milliseconds, f"{took['continued']:,}"])
        header = [
            "sessions",
            "left",
            "open, ms",
            "list, ms",
            "first event, ms",
            "the others, ms",
            "continued",
        ]
        show(header, rows)

    def steps(self) -> None:
        path = self._directory / "steps"
        model = Steps()
        rows: list[list[str]] = []
        with (
            LmdbEventLog(path, sync=False) as log,
            Runner(app_of(model, echo), log=log, config=RunConfig(max_llm_calls=0)) as runner,
        ):
            earlier = payload = 0
            for steps in (self._steps, self._steps // 4):
                model.begin(steps)
                begun = time.perf_counter()
                events = runner.run(user_id="u", session_id="s", message="go").result().events
                first = model.asked[0][0] - begun
                early, late = model.step_at(100), model.step_at(steps - WINDOW // 2)
                ratios = [f"{later / before:.2f}" for before, later in zip(early, late, strict=True)]
                row = [
                    f"{earlier:,}",
                    f"{steps:,}",
                    *[f"{one * 1000:.2f}" for one in (first, early[0], late[0])],
                ]
                payload += sum(len(event.to_json()) for event in events)
                size = (path / "data.mdb").stat().st_blocks * 512
                rows.append([*row, *ratios, f"{size / 2**20:.1f}", f"{size / payload:.2f}"])
                earlier += len(events)
        times = ["the first request, ms", "the 100th step, ms", "the last, ms", "ratio (<= 2)", "of CPU time"]
        show(["events before", "steps", *times, "log, MiB", "of the payload (< 3)"], rows)


PARTS = {
    "cold": ("what a worker finds that has just started", Bench.cold),
    "steps": ("a run of many steps", Bench.steps),
}


def main() -> None:
    """Run the parts that the command line names, or be the worker of one."""
    if sys.argv[1:2] == ["--cold"]:
        json.dump(cold(sys.argv[2]), sys.stdout)
        return
    run_parts("How fast recovery is.", PARTS, lambda directory, quick: Bench(directory, quick=quick))


if __name__ == "__main__":
    main()
