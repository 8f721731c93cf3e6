"""What a cancel costs and how soon it is everywhere: `python tests/benchmarks/cancel.py`.

The service is a process of its own and says when it saw its client hang up, on the clock that both share.
Each call is one of a run, and it is the run that is cancelled.
"""

import gc
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

SUPPORT = Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from apps import app_of, app_with  # noqa: E402 - this is a script, and nobody else sets its path
from bench import Row, run_parts, show  # noqa: E402 - as above
from intermission import Content, LlmAgent, Run, RunConfig, Runner, ToolContext  # noqa: E402 - as above
from intermission.models import ChatCompletions, Model, ModelRequest, ModelResponse  # noqa: E402 - as above
from intermission.testing import Gate, ScriptedModel, calls, unaccepted  # noqa: E402 - as above
from intermission_storage import LmdbEventLog, MemoryEventLog  # noqa: E402 - as above
from pools import until  # noqa: E402 - as above
from processors import waited  # noqa: E402 - as above
from served import ServedModel  # noqa: E402 - as above
from sockets import unsent  # noqa: E402 - as above

PATIENCE = 60.0  # seconds
STREAMED = RunConfig(streaming=True)
LARGE = Content.user("x" * 20_000_000)  # more than the system takes before anybody reads it
STILL = 0.003  # seconds in which a thread that has been told where to wait has come to wait there
HOOKS = 40
WORKERS = 4
OTHERS = 50  # sessions beside a storm
STREAM = "Stream"  # what is said to have an answer that does not end
never = threading.Event()


class Large:
    """Asks another model, with a large message in the place of the conversation."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        return self._model.generate(replace(request, contents=(LARGE,)))


class Times:
    """From the cancel until it has returned, the service sees it, the end is stored, the thread is free."""

    def __init__(self) -> None:
        self.returned: list[float] = []
        self.closed: list[float] = []
        self.running: list[float] = []
        self.stored: list[float] = []
        self.freed: list[float] = []

    def cancel(self, run: Run, *, terminates: bool = True) -> float:
        """Cancel a run, and return when; wait for its thread if it gives that back."""
        began = time.monotonic()
        run.cancel("enough")
        self.returned.append(time.monotonic() - began)
        run.result(PATIENCE)
        self.stored.append(time.monotonic() - began)
        if run.status != "cancelled" or (terminates and not run.wait_terminated(PATIENCE)):
            raise RuntimeError(f"it was not cancelled: {run}")
        self.freed.append(time.monotonic() - began)
        return began


class Bench:
    """Runs the parts.

    Args:
        directory: For logs and certificates.
        quick: Whether to take few rounds, to see that it works.
    """

    def __init__(self, directory: Path, *, quick: bool) -> None:
        self._directory = directory
        self._rounds = 2 if quick else 200
        self._streams = 20 if quick else 500
        self._storms = 1 if quick else 3
        self._seconds = 0.2 if quick else 2.0

    def phases(self) -> None:
        """Show, for each phase of a model call, how soon the service sees that its client has hung up."""
        rows: list[Row] = []
        for wire in ("plain", "TLS"):
            rows.append(_row("connecting", wire, self._connecting(wire)))
            with ServedModel(self._directory, tls=wire == "TLS") as server:
                options = {"base_url": server.url, "ca_bundle": server.ca_bundle}
                phases = ["headers", "first token", "stalled", "streaming", "no length", "refusal", "sending"]
                for phase in ["handshake", *phases] if wire == "TLS" else phases:
                    rows.append(_row(phase, wire, self._phase(server, phase, **options)))
        with ServedModel(self._directory) as proxy:
            with patch.dict(os.environ, HTTPS_PROXY=proxy.url.removesuffix("/v1")):
                times = self._phase(proxy, "proxy", base_url="https://model.invalid/v1")
            rows.append(_row("proxy", "TLS", times))
        header = [
            "phase",
            "wire",
            "the service sees it: p50 (<= 2)",
            "p95 (<= 5)",
            "worst (<= 50)",
            "of that running",
        ]
        show([*header, "cancel(): p50", "worst", "the thread is free: p50", "worst"], rows)

    def _phase(self, server: ServedModel, phase: str, **options: object) -> Times:
        times = Times()
        port = int(server.url.rpartition(":")[2].removesuffix("/v1"))
        with closing(ChatCompletions("small", api_key="k", **options)) as model:  # type: ignore[arg-type]  # its keywords
            app = app_with(Large(model) if phase == "sending" else model)
            with Runner(app, log=MemoryEventLog()) as runner:
                for number in range(self._rounds):
                    server.enqueue(phase)
                    run = runner.run(user_id="u", session_id=f"{number}", message="hi", config=STREAMED)
                    if phase in {"stalled", "streaming", "no length"}:
                        events = iter(run)  # kept: a run whose consumer goes is cancelled
                        next(events)
                    else:
                        run.start()
                        server.wait_reached()
                    if phase == "sending":
                        until(lambda: unsent(port) > 200_000)
                    never.wait(STILL)
                    before = _waited(server, phase)
                    began = times.cancel(run)
                    times.closed.append(server.wait_aborted(server.enqueued) - began)
                    waited_for = _waited(server, phase) - before
                    times.running.append(max(0.0, times.closed[-1] - waited_for))
        return times

    def _connecting(self, wire: str) -> Times:
        times = Times()
        with ExitStack() as stack:
            url = stack.enter_context(unaccepted())
            base_url = url if wire == "plain" else url.replace("http", "https")
            model = stack.enter_context(closing(ChatCompletions("small", base_url=base_url, api_key="k")))
            runner = stack.enter_context(Runner(app_with(model), log=MemoryEventLog()))
            for number in range(self._rounds):
                run = runner.run(user_id="u", session_id=f"{number}", message="hi").start()
                never.wait(10 * STILL)
                times.cancel(run)
        return times

    def saturated(self) -> None:
        """Show what a cancel takes while every worker is blocked, of a run in its call and of one in line."""
        blocked, in_line = Times(), Times()
        for number in range(-(-self._rounds // WORKERS)):
            _saturated(self._directory / f"log-{number}", blocked, in_line)
        names = {"in a call that blocks": blocked, "in line for a worker": in_line}
        rows = [
            [name, f"{len(of.stored)}", *_figures(of.returned), *_figures(of.stored)]
            for name, of in names.items()
        ]
        one = ["the run is", "of", "cancel(): p50", "p95", "worst"]
        show([*one, "its end is durable: p50", "p95", "worst (<= 250)"], rows)

    def hooks(self) -> None:
        """Show what a cancel takes whose hooks never return, and how soon another call's hook runs then."""
        times, told_after = Times(), list[float]()
        for _ in range(max(1, self._rounds // 10)):
            gate, begun, told = Gate(), Gate(), list[float]()
            begun.open()
            model = ScriptedModel(calls(("many", {})), calls(("one", {})))
            many, one = _hooked(gate, begun, told)
            with Runner(app_with(model, many, one), log=MemoryEventLog()) as runner:
                stuck = _begun(runner, 1)
                begun.arrived(1)
                other = _begun(runner, 2)
                begun.arrived(2)
                times.cancel(stuck, terminates=False)
                gate.arrived(HOOKS, PATIENCE)
                began = time.monotonic()
                other.cancel()
                until(partial(bool, told))
                told_after.append(told[0] - began)
                gate.open()
        figures = [*_figures(times.returned), *_figures(times.stored), *_figures(told_after)]
        header = ["hooks that never return", "of", "cancel(): p50", "p95", "worst"]
        header += ["the end is stored: p50", "p95", "worst", "the other's hook runs: p50", "p95", "worst"]
        show(header, [[f"{HOOKS}", f"{len(told_after)}", *figures]])

    def storm(self) -> None:
        """Show what it costs 50 sessions that go on when 500 others, which stream, are cancelled at once."""
        rows: list[Row] = []
        for _ in range(self._storms):
            with ServedModel(self._directory) as server:
                rows.append(_storm(server, self._streams, self._seconds))
        header = ["streams", "the last close (<= 1 s)", "the last thread free"]
        header += ["the others before and after, runs/s", "in the second of the storm (>= 0.7x)"]
        header += ["until the last is free", "descriptors left", "threads left"]
        show(header, rows)


class Others:
    """Sessions that make one run after the other, each on a thread of its own, while the block runs."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._over = threading.Event()
        self._counts = [0] * OTHERS
        self._threads = [threading.Thread(target=self._go_on, args=[number]) for number in range(OTHERS)]

    def __enter__(self) -> "Others":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _go_on(self, number: int) -> None:
        while not self._over.is_set():
            self._runner.run(user_id="u", session_id=f"other {number}", message="hi").answer(PATIENCE)
            self._counts[number] += 1

    def mark(self) -> tuple[float, int]:
        """Return the time, and how many runs there have been."""
        return time.monotonic(), sum(self._counts)

    def rate_of(self, seconds: float) -> float:
        """Wait for as long to pass twice; return the runs a second of the second time."""
        never.wait(seconds)
        mark = self.mark()
        never.wait(seconds)
        return self.rate(mark)

    def rate(self, mark: tuple[float, int]) -> float:
        """Return the runs a second since a mark."""
        now, runs = self.mark()
        return (runs - mark[1]) / (now - mark[0])


def _storm(server: ServedModel, streams: int, seconds: float) -> Row:
    threads, descriptors = threading.active_count(), _descriptors()
    with ExitStack() as stack:
        model = stack.enter_context(closing(ChatCompletions("small", base_url=server.url, api_key="k")))
        agent = LlmAgent("agent", Either(model), include_contents="none")
        runner = stack.enter_context(Runner(app_of(agent), log=MemoryEventLog()))
        server.enqueue("stalled", streams)
        runs = [_begun(runner, number, STREAM) for number in range(streams)]
        events = [iter(run) for run in runs]
        for each in events:
            next(each)
        with Others(runner) as others:
            before = others.rate_of(seconds)
            mark = others.mark()
            for run in runs:
                run.cancel("a storm")
            for run in runs:
                if run.result(PATIENCE).status != "cancelled" or not run.wait_terminated(PATIENCE):
                    raise RuntimeError(f"it was not cancelled: {run}")
            during, freed = others.rate(mark), time.monotonic() - mark[0]
            never.wait(max(0.0, 1.0 - freed))
            second = others.rate(mark)
            closed = server.wait_aborted(streams) - mark[0]  # now, since the server has work with it
            events.clear()
            runs.clear()
            usual = (before + others.rate_of(seconds)) / 2
    gc.collect()
    ends = time.monotonic() + PATIENCE
    while threading.active_count() > threads and time.monotonic() < ends:
        never.wait(0.1)
    left = [f"{_descriptors() - descriptors}", f"{threading.active_count() - threads}"]
    rates = [f"{usual:,.0f}", f"{second / usual:.2f}x", f"{during / usual:.2f}x"]
    return [f"{streams:,}", f"{closed:.2f} s", f"{freed:.2f} s", *rates, *left]


class Either:
    """Asks a service for an answer to `STREAM`, and answers anything else at once."""

    name = "either"

    def __init__(self, model: Model) -> None:
        self._model = model

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        if request.contents[-1].text == STREAM:
            yield from self._model.generate(request)
        else:
            yield ModelResponse(content=Content.model("ok"))


def _saturated(path: Path, blocked: Times, in_line: Times) -> None:
    gate = Gate()
    with ExitStack() as stack:
        log = stack.enter_context(LmdbEventLog(path))
        app = app_with(ScriptedModel(default=calls(("stuck", {}))), _stuck(gate))
        runner = stack.enter_context(Runner(app, log=log, workers=WORKERS))
        stack.callback(gate.open)
        runs = [_begun(runner, number) for number in range(WORKERS)]
        gate.arrived(WORKERS, PATIENCE)
        runs += [_begun(runner, WORKERS + number) for number in range(WORKERS)]
        workers = runner._services.workers  # pyright: ignore[reportPrivateUsage]  # to see the line
        until(lambda: workers.waiting == WORKERS)
        for place, run in enumerate(runs):
            (blocked if place < WORKERS else in_line).cancel(run, terminates=False)


def _stuck(gate: Gate) -> Callable[[], None]:
    def stuck() -> None:
        gate.wait(PATIENCE)

    return stuck


def _hooked(gate: Gate, begun: Gate, told: list[float]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return a tool with hooks that stand at a gate, and one with a hook that notes when it was called."""

    def many(tool_context: ToolContext) -> None:
        for _ in range(HOOKS):
            tool_context.cancellation.on_cancel(gate.wait)
        begun.wait()
        tool_context.cancellation.wait()

    def one(tool_context: ToolContext) -> None:
        tool_context.cancellation.on_cancel(lambda: told.append(time.monotonic()))
        begun.wait()
        tool_context.cancellation.wait()

    return many, one


def _begun(runner: Runner, session: int, message: str = "hi") -> Run:
    run = runner.run(user_id="u", session_id=f"{session}", message=message, config=STREAMED)
    run.begin()
    return run


def _waited(server: ServedModel, phase: str) -> float:
    """Return how long those that stand between a cancel and its being seen have waited for a processor."""
    ours = [threading.current_thread()]
    if (
        phase == "sending"
    ):  # what nobody reads keeps the end behind it, until the call's thread closes its socket
        ours += [
            each
            for each in threading.enumerate()
            if each.name.startswith(("intermission-worker", "intermission-run"))
        ]
    started = [each.native_id for each in ours if each.native_id is not None]
    return waited(os.getpid(), *started) + waited(*server.watcher)


def _row(phase: str, wire: str, times: Times) -> Row:
    closed = ["nobody sees it", "", "", ""]
    if times.closed:
        closed = [*_figures(times.closed), _figures(times.running)[-1]]
    rest = [figure for of in (times.returned, times.freed) for figure in _figures(of)[::2]]
    return [phase, wire, *closed, *rest]


def _figures(times: Sequence[float]) -> list[str]:
    """Return the median, what 95 % do not exceed, and the worst."""
    found = sorted(times)
    ninety_fifth = found[min(len(found) - 1, len(found) * 95 // 100)]
    return [f"{1000 * seconds:.2f} ms" for seconds in (statistics.median(found), ninety_fifth, found[-1])]


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


PARTS: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "phases": ("Calls of models, cancelled in every phase", Bench.phases),
    "saturated": ("Runs cancelled while every worker is blocked, stored by LMDB", Bench.saturated),
    "hooks": ("A call with hooks that never return, and another call", Bench.hooks),
    "storm": ("Streams cancelled at once, beside sessions that go on", Bench.storm),
}


if __name__ == "__main__":
    run_parts(__doc__ or "", PARTS, lambda directory, quick: Bench(directory, quick=quick))
