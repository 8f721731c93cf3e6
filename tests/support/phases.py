"""A run brought to a certain point of its course, and held there until the test lets it go on."""

from collections.abc import Callable

from apps import KEY, app_with, records
from intermission import Run, RunConfig, Runner
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text

__all__ = ["PHASES", "Bench"]


class Bench:
    """A runner on a log that can be held. Its model calls the tool `work`, says "Hello", and later "ok".

    Attributes:
        begun: How often the tool was begun.
    """

    def __init__(self, *, hold_tool: bool = False, hold_model: bool = False) -> None:
        self.tool_gate, self.model_gate = Gate(), Gate()
        self.log, self.begun = FaultyLog(), 0
        if not hold_tool:
            self.tool_gate.open()
        if not hold_model:
            self.model_gate.open()
        hello = text("Hel", self.model_gate, "lo")
        self.model = ScriptedModel(calls(("work", {})), hello, default="ok")
        self.runner = Runner(app_with(self.model, self.work), log=self.log, config=RunConfig(streaming=True))
        self.gates = [self.tool_gate, self.model_gate]

    def work(self) -> str:
        """Work."""
        self.begun += 1
        self.tool_gate.wait()
        return "worked"

    def run(self) -> Run:
        """A cold run."""
        return self.runner.run(**KEY, message="hi")

    def hold(self, batch: int | str) -> Gate:
        """Hold a batch of the log."""
        gate = self.log.hold(batch)
        self.gates.append(gate)
        return gate

    def kinds_of(self, run: Run) -> list[str]:
        """The kinds of the run's own records."""
        own = run.invocation_id
        return [record.kind for record in records(self.log) if own and record.data.get("invocationId") == own]

    def let_go(self) -> None:
        """Open every gate."""
        for gate in self.gates:
            gate.open()

    def close(self) -> None:
        """Open every gate and close the runner."""
        self.let_go()
        self.runner.close()


def _cold() -> tuple[Bench, Run]:
    bench = Bench()
    return bench, bench.run()


def _queued() -> tuple[Bench, Run]:
    bench = Bench(hold_tool=True)
    bench.run().start()
    bench.tool_gate.arrived()
    return bench, bench.run().start()


def _setting_up() -> tuple[Bench, Run]:
    bench = Bench()
    gate, run = bench.hold(1), bench.run()
    run.begin()
    gate.arrived()
    return bench, run


def _storing() -> tuple[Bench, Run]:
    bench = Bench()
    gate, run = bench.hold(2), bench.run()
    run.begin()
    gate.arrived()
    return bench, run


def _in_a_tool() -> tuple[Bench, Run]:
    bench = Bench(hold_tool=True)
    run = bench.run().start()
    bench.tool_gate.arrived()
    return bench, run


def _streaming() -> tuple[Bench, Run]:
    bench = Bench(hold_model=True)
    run = bench.run().start()
    bench.model_gate.arrived()
    return bench, run


def _in_the_final_commit() -> tuple[Bench, Run]:
    bench = Bench()
    gate, run = bench.hold("run_ended"), bench.run()
    run.begin()
    gate.arrived()
    return bench, run


def _ended() -> tuple[Bench, Run]:
    bench, run = _cold()
    run.result(30)
    return bench, run


PHASES: dict[str, Callable[[], tuple[Bench, Run]]] = {
    "cold": _cold,
    "queued": _queued,
    "setting up": _setting_up,
    "storing an event": _storing,
    "in a tool": _in_a_tool,
    "streaming": _streaming,
    "in the final commit": _in_the_final_commit,
    "ended": _ended,
}
"""Each phase by its name: what makes a bench and a run that stands there."""
