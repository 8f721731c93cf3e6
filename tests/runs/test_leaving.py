"""Strands that leave: what is stuck in a `finally` holds up nobody else, and none is left out."""

import threading

import pytest

from apps import KEY, app_of
from intermission import AgentContext, BaseAgent, Content, Runner, RunStatus
from intermission.agents.effects import Call, Steps
from intermission.kernel.workers import Workers
from intermission.testing import Gate
from intermission_storage import MemoryEventLog
from loops import PATIENCE

RESERVE = 64  # jobs at a time of the budget that reads the log


class Leaving(BaseAgent):
    """Makes a call, if its user says "call", and stands at a gate in its `finally`; else it says "ok"."""

    def __init__(self, calling: Gate, leaving: Gate) -> None:
        super().__init__("leaving")
        self.calling = calling
        self.leaving = leaving

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        if context.events[-1].text != "call":
            yield context.event(self.name, content=Content.model("ok"))
            return
        try:
            yield Call(self.calling.wait)
        finally:
            self.leaving.wait()


def test_agents_that_are_stuck_in_their_finally_keep_no_other_session_from_being_read() -> None:
    agent = Leaving(Gate(), Gate())
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        names = [f"stuck-{number}" for number in range(RESERVE)]
        runs = [runner.run(user_id="u", session_id=name, message="call") for name in names]
        for run in runs:
            run.start()
        agent.calling.arrived(RESERVE)
        for run in runs:
            run.cancel()
        agent.leaving.arrived(RESERVE)

        fresh = runner.run(**KEY, message="hi")
        try:
            assert fresh.result(PATIENCE / 3).status is RunStatus.COMPLETED  # before the gates lose theirs
        finally:
            agent.calling.open()
            agent.leaving.open()


def test_an_agent_is_left_though_the_workers_are_closed_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, begun, closed = Leaving(Gate(), Gate()), threading.Event(), threading.Event()
    close = Workers.close

    def close_before(workers: Workers, timeout: float = 0.0) -> int:
        left = close(workers, timeout)
        closed.set()
        return left

    def hold() -> None:
        begun.set()
        closed.wait(PATIENCE)

    runner = Runner(app_of(agent), log=MemoryEventLog())
    run = runner.run(**KEY, message="call").start()
    agent.calling.arrived()
    monkeypatch.setattr(Workers, "close", close_before)
    runner._services.timer.call_soon(hold)  # pyright: ignore[reportPrivateUsage] - whose thread gives the call up
    assert begun.wait(PATIENCE)
    runner.close(grace=0)

    try:
        agent.leaving.arrived(timeout=PATIENCE / 3)
    finally:
        agent.calling.open()
        agent.leaving.open()
    assert run.wait_terminated(PATIENCE)
    assert runner.residual() == []
