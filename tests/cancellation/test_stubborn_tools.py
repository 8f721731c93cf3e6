"""Threads of tools that heed nothing count within the bound, and cannot starve the others."""

from collections.abc import Iterator
from typing import Any

import pytest

from apps import app_with
from intermission import Content, FunctionCall, Run, RunConfig, Runner, RunStatus
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ManualClock
from intermission_storage import MemoryEventLog
from loops import PATIENCE
from pools import until
from races import at_once

WORKERS, STUBBORN, HEALTHY, RUNS = 32, 25, 5, 20


class Chooses:
    """Calls the tool that its user names, once, and then says "ok"."""

    name = "chooses"

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        last = request.contents[-1]
        named = [FunctionCall("", last.text)] if last.text else []
        yield ModelResponse(content=Content.model("" if named else "ok", calls=named))


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def stuck_runs(runner: Runner, gate: Gate, **config: Any) -> list[Run]:
    """Runs whose tools stay at the gate, each in a session of its own."""
    runs = [
        runner.run(user_id="u", session_id=f"stuck {n}", message="stubborn", config=RunConfig(**config))
        for n in range(STUBBORN)
    ]
    for run in runs:
        run.start()
    gate.arrived(STUBBORN)
    return runs


@pytest.mark.scenario("F1")
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_of_a_bounded_pool_that_stubborn_tools_have_most_of_the_others_get_all_that_they_need(
    how: str, gate: Gate
) -> None:
    def stubborn() -> None:
        gate.wait()

    def quick() -> str:
        return "seen"

    clock = ManualClock()
    app = app_with(Chooses(), stubborn, quick)
    with Runner(app, log=MemoryEventLog(), workers=WORKERS, worker_wait=PATIENCE, clock=clock) as runner:
        runs = stuck_runs(runner, gate, tool_timeout=None if how == "cancelled" else 1)
        if how == "cancelled":
            for run in runs:
                run.cancel()
        else:
            clock.advance(1)
        ended = {run.result(PATIENCE).status for run in runs}
        assert ended == {RunStatus.CANCELLED if how == "cancelled" else RunStatus.COMPLETED}

        def healthy(number: int) -> None:
            for _ in range(RUNS):
                run = runner.run(user_id="u", session_id=f"healthy {number}", message="quick")
                assert run.answer(PATIENCE) == "ok"

        at_once(*[lambda number=number: healthy(number) for number in range(HEALTHY)])
        found = runner.metrics()
        assert found["residual_work"]["tool"] == STUBBORN
        assert found["residual_workers"] >= STUBBORN
        assert (found["workers_refused_total"], found["runs_ended_total"]["failed"]) == (0, 0)
        assert len([work for work in runner.residual() if work.name == "stubborn"]) == STUBBORN
        gate.open()
        assert all(run.wait_terminated(PATIENCE) for run in runs)
        until(lambda: runner.metrics()["workers_busy"] == 0)
        assert runner.metrics()["late_work_total"]["tool"] == STUBBORN
