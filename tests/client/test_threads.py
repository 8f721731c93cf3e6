"""Clients on threads that have a loop, in programs that close nothing, and beside a runner."""

import asyncio
import logging
import os
import sys
from functools import partial

import pytest

from apps import KEY, app_with
from callers import PATIENCE, Caller, Telling, behind, covered
from children import PATIENCE as LONG
from intermission import CancelScope, Runner
from intermission.client import AgentClient, LlmClient
from intermission.kernel import loop_warnings
from intermission.testing import Gate
from intermission_storage import MemoryEventLog
from tree import ROOT, environment, run

PROGRAM = """
import sys
import intermission
print("imported" if "intermission.client" in sys.modules else "not imported", flush=True)

import threading
from callers import Telling, behind
from intermission.client import AgentClient, LlmClient
from intermission.testing import Gate

gate = Gate()
model = Telling(behind(gate))
client, agent = LlmClient(model), AgentClient(model)
client.submit("hello")
agent.stream("s", "hello", type("Deaf", (), {"on_event": print})()).get()
threading.Thread(target=client.complete, args=("hello",), daemon=True).start()
gate.arrived(3)
print([thread.name for thread in threading.enumerate() if not thread.daemon], flush=True)
"""


def test_a_program_that_closes_nothing_ends_though_a_turn_is_blocked() -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    finished = run(sys.executable, "-c", PROGRAM, env=env, timeout=LONG)
    finished.check()
    assert finished.output.splitlines() == ["not imported", "['MainThread']"]


def test_a_blocking_call_on_a_thread_with_a_loop_works_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_warnings, "_warned", set[str]())

    with LlmClient(Telling(str.upper)) as client, AgentClient(Telling(str.upper)) as agent:

        async def ask() -> list[str]:
            answers = [client.complete(asked).get().text for asked in ("a", "b")]
            return [*answers, *(agent.run(asked).get().text for asked in ("c", "d"))]

        assert asyncio.run(ask()) == ["A", "B", "C", "D"]
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [said.split(" ")[0] for said in warnings] == ["LlmClient.complete", "AgentClient.run"]


def test_a_wait_for_the_run_of_a_runner_looks_at_no_scope_of_its_caller() -> None:
    gate = Gate()
    with Runner(app_with(Telling(behind(gate))), log=MemoryEventLog()) as runner:
        run, scope = runner.run(**KEY, message="hello").start(), CancelScope()
        scope.cancel()
        with pytest.raises(TimeoutError):
            covered(scope, partial(run.result, 0.01))
        caller = Caller(partial(covered, scope, run.result))
        gate.open()
        assert caller.result().text == "late"
        assert run.result(PATIENCE).status == "completed"
