"""What tools that heed nothing cost the others: `python tests/benchmarks/stubborn.py`.

Healthy sessions run one after another what a model and a tool take, and so does a stubborn session each: its
tool, on a thread, heeds no cancel and does not return. The pool is bounded, and its bound holds for the
stubborn ones, too. The healthy ones are measured alone, then beside them, in turns.
"""

import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from bench import run_parts, show  # noqa: E402 - this is a script, and nobody else sets its path
from intermission import App, Content, FunctionCall, LlmAgent, Run, Runner  # noqa: E402 - as above
from intermission.models import ModelRequest, ModelResponse  # noqa: E402 - as above
from intermission_storage import EventLog, LmdbEventLog  # noqa: E402 - as above

PATIENCE = 60.0  # seconds


class Chooses:
    """Calls the tool that its user names, once, and then says "ok"."""

    name = "chooses"

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        named = request.contents[-1].text
        made = [FunctionCall("", named)] if named else []
        yield ModelResponse(content=Content.model("" if made else "ok", calls=made))


class Bench(NamedTuple):
    """How much is measured."""

    directory: Path
    workers: int
    stubborn: int
    healthy: int
    seconds: float
    turns: int

    @classmethod
    def make(cls, directory: Path, quick: bool) -> "Bench":
        """Make one."""
        return cls(directory, 32, 20, 5, 0.2, 1) if quick else cls(directory, 256, 200, 50, 5.0, 5)


class Service:
    """A runner whose tools are quick, or stay until `let_go`."""

    def __init__(self, bench: Bench, log: EventLog) -> None:
        self._bench = bench
        self._let_go = threading.Event()
        self._stuck = threading.Semaphore(0)

        def quick() -> str:
            return "seen"

        def stubborn() -> None:
            self._stuck.release()
            self._let_go.wait()

        agent = LlmAgent("agent", Chooses(), tools=[quick, stubborn])
        self.runner = Runner(App("bench", agent), log=log, workers=bench.workers)

    def load(self) -> list[Run]:
        """Have stubborn tools under way, cancel their runs, and return these."""
        runs = [
            self.runner.run(user_id="stubborn", session_id=str(number), message="stubborn").start()
            for number in range(self._bench.stubborn)
        ]
        for _ in runs:
            assert self._stuck.acquire(timeout=PATIENCE)
        for run in runs:
            run.cancel()
        return runs

    def unload(self, runs: list[Run]) -> None:
        """Let the stubborn tools return."""
        self._let_go.set()
        assert all(run.wait_terminated(PATIENCE) for run in runs)
        self._let_go.clear()

    def rate(self) -> tuple[float, int]:
        """Return how many healthy runs end in a second, and how many have failed."""
        until = time.monotonic() + self._bench.seconds
        counts, failed = [0] * self._bench.healthy, [0] * self._bench.healthy

        def work(number: int) -> None:
            while time.monotonic() < until:
                run = self.runner.run(user_id="healthy", session_id=str(number), message="quick")
                counts[number] += 1
                failed[number] += run.result(PATIENCE).status != "completed"

        threads = [threading.Thread(target=work, args=(number,)) for number in range(self._bench.healthy)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / self._bench.seconds, sum(failed)


def measure(bench: Bench) -> None:
    """Show the rates of the healthy sessions alone and beside the stubborn tools."""
    shares, alone_rates, beside_rates, failed = list[float](), list[float](), list[float](), 0
    with LmdbEventLog(bench.directory / "log") as log:
        service = Service(bench, log)
        service.rate()  # the sessions come into being
        for _ in range(bench.turns):
            alone, failed_alone = service.rate()
            runs = service.load()
            beside, failed_beside = service.rate()
            left = service.runner.metrics()["residual_work"]["tool"]
            assert left == bench.stubborn
            service.unload(runs)
            shares.append(beside / alone)
            alone_rates.append(alone)
            beside_rates.append(beside)
            failed += failed_alone + failed_beside
        service.runner.close()
    figures = [
        *(f"{statistics.median(rates):,.0f}" for rates in (alone_rates, beside_rates)),
        f"{statistics.median(shares):.2f}",
        f"{min(shares):.2f}",
    ]
    names = ["stubborn tools", "workers", "healthy sessions"]
    header = [*names, "alone, runs/s", "beside, runs/s", "share (>= 0.7)", "worst", "failed (0)"]
    numbers = [str(number) for number in (bench.stubborn, bench.workers, bench.healthy)]
    show(header, [[*numbers, *figures, str(failed)]])


PARTS = {"healthy": ("runs beside tools that heed nothing", measure)}

if __name__ == "__main__":
    run_parts(__doc__ or "", PARTS, Bench.make)
