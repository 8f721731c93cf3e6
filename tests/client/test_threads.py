"""Clients on threads that have a loop, in programs that close nothing, and beside a runner."""

import asyncio
import logging
import os
import sys
from functools import partial
from pathlib import Path

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


def test_a_ctrl_c_in_the_close_at_the_end_of_the_block_ends_the_grace_and_not_the_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close, graces = Runner.close, list[float]()

    def interrupted(runner: Runner, grace: float = 5.0) -> None:
        graces.append(grace)
        if len(graces) == 1:
            raise KeyboardInterrupt
        close(runner, grace)

    monkeypatch.setattr(Runner, "close", interrupted)
    with pytest.raises(KeyboardInterrupt), AgentClient(Telling(str.upper)) as agent:
        assert agent.run("a", session_id="s").is_success
    assert graces == [5.0, 0]


ENDING = """
import os
from callers import Telling, behind
from intermission.client import AgentClient
from intermission.testing import Gate
from intermission_storage import LmdbEventLog

class Deaf:
    def on_event(self, event):
        pass

class Holder:
    def __init__(self):
        self.log = LmdbEventLog("held.lmdb")
        self.client = AgentClient(Telling(behind(gate)))
        self.stream = self.client.stream("s", "hello", Deaf()).get()

    def __del__(self):
        self.client.close()
        self.log.close()
        print(type(self.client.run("hello").error).__name__, flush=True)

gate = Gate()
holder = Holder()
gate.arrived()
child = os.fork()
if not child:
    holder.stream.cancel()
    print(*(type(r.error).__name__ for r in (holder.stream.result(), holder.client.recover("s"))), flush=True)
    os._exit(0)
os.waitpid(child, 0)
gate.open()
print(holder.stream.result().get().text, flush=True)
"""


def test_a_client_waits_for_nobody_in_a_fork_and_when_python_ends(tmp_path: Path) -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    finished = run(sys.executable, "-W", "ignore", "-c", ENDING, env=env, timeout=LONG, cwd=tmp_path)
    finished.check()
    said = ["SessionClosedError SessionClosedError", "late", "ClientClosedError"]
    assert finished.output.splitlines() == said
