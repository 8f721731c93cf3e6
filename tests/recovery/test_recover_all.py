"""`recover_all`: so many at a time, to the end of all, or of the runner."""

import threading
from collections.abc import Iterator

from intermission import (
    App,
    LlmAgent,
    RecoveryReport,
    ResumabilityConfig,
    Runner,
    RunStatus,
    SessionClosedError,
)
from intermission.content import Content
from intermission.models import Model, ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import EventLog, MemoryEventLog
from left import left

SESSIONS = [f"s{number}" for number in range(6)]
PATIENCE = 60.0


def app_of(model: Model) -> App:
    """Return an app whose runs can be gone on with."""
    agent = LlmAgent("agent", model)
    return App("app", agent, resumability_config=ResumabilityConfig(is_resumable=True))


def leave_six() -> EventLog:
    """Return a log with a run in each session that a runner has left in its model."""
    log = MemoryEventLog()
    gates = [Gate() for _ in SESSIONS]
    runner = Runner(app_of(ScriptedModel(*(text(gate, "late") for gate in gates))), log=log)
    runs = [runner.run(user_id="u", session_id=name, message="go").start() for name in SESSIONS]
    for gate in gates:
        gate.arrived()
    runner.close(grace=0)
    for gate in gates:
        gate.open()
    assert all(run.wait_terminated(PATIENCE) for run in runs)
    return log


class InPairs:
    """A model that answers two at a time, and knows how many have asked it at once at most."""

    name = "in pairs"

    def __init__(self) -> None:
        self.most = 0
        self._asked = 0
        self._lock = threading.Lock()
        self._pair = threading.Barrier(2)

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        with self._lock:
            self._asked += 1
            self.most = max(self.most, self._asked)
        self._pair.wait(PATIENCE)
        with self._lock:
            self._asked -= 1
        yield ModelResponse(content=Content.model("done"))


def test_so_many_runs_are_gone_on_with_at_a_time_as_it_is_told() -> None:
    log, model = leave_six(), InPairs()
    with Runner(app_of(model), log=log) as runner:
        report = runner.recover_all(max_parallel=2)
    assert [one.result.text for one in report.continued] == ["done"] * len(SESSIONS)
    assert model.most == 2


def test_when_its_runner_is_closed_it_returns_and_the_rest_is_left_to_the_next() -> None:
    log, gate, reports = leave_six(), Gate(), list[RecoveryReport]()
    runner = Runner(app_of(ScriptedModel(text(gate, "late"))), log=log)
    recovery = threading.Thread(target=lambda: reports.append(runner.recover_all(max_parallel=1)))
    recovery.start()
    gate.arrived()
    runner.close(grace=0)
    recovery.join(PATIENCE)
    gate.open()
    (report,) = reports
    assert [one.result.status for one in report.continued] == [RunStatus.INTERRUPTED]
    assert [type(one.result.error) for one in report.failed] == [SessionClosedError] * (len(SESSIONS) - 1)
    with Runner(app_of(ScriptedModel(default="done")), log=log) as runner:
        assert sorted(left(runner)) == SESSIONS
        assert len(runner.recover_all().continued) == len(SESSIONS)
