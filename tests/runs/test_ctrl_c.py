"""Ctrl-C in a program's main thread while it consumes a run: the run ends, and the program does."""

import os
import sys
from pathlib import Path

import pytest

from children import PATIENCE
from tree import ROOT, environment, run

PROGRAM = """
import os, signal, sys, threading
from apps import KEY, app_with, records
from blocked import wait_until_blocked
from intermission import RunConfig, Runner
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import MemoryEventLog

def say(*words):
    print(*words, flush=True)

gate, log, main = Gate(), MemoryEventLog(), threading.main_thread()
shown = threading.Event()
app = app_with(ScriptedModel(text("Hel", gate, "lo"), default="ok"))
runner = Runner(app, log=log, config=RunConfig(streaming=True, on_consumer_lost="{policy}"))
run = runner.run(**KEY, message="hi")

def interrupt():
    gate.arrived()
    assert {look} or shown.wait({patience})
    wait_until_blocked(main, looks=50)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    {consume}
except KeyboardInterrupt:
    say("interrupted", gate.arrivals)
if "{policy}" == "detach":
    say(run.status, run.cancel_report)
    gate.open()
    say(run.answer({patience}))
    runner.close()
    sys.exit()
say(run.result({patience}).status, run.cancel_report.source)
say(*[record.kind for record in records(log)])
say(records(log)[-1].data["source"])
{end}
"""

CONSUME = {
    "result": "run.result()",
    "answer": "run.answer()",
    "loop": "for event in run: say(event.text); shown.set()",
    "loop's body": "for event in run: say(event.text); shown.set(); threading.Event().wait()",
    "block": "with run: run.wait_terminated()",
    "asyncio": "import asyncio; asyncio.run(run.aresult())",
}
ENDS = {
    "closes": "gate.open(); runner.close()",
    "closes over work that hangs": "runner.close(grace=0)",
    "just ends": "",
}


def interrupted(consume: str, end: str, policy: str) -> list[str]:
    """What a program says that is interrupted while it consumes a run; it ends with no error."""
    in_loop = "loop" in consume
    program = PROGRAM.format(
        consume=CONSUME[consume], end=ENDS[end], policy=policy, patience=PATIENCE, look=not in_loop
    )
    if consume == "asyncio":
        program = program.replace("wait_until_blocked(main, looks=50)", "pass")
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    finished = run(sys.executable, "-c", program, env=env, timeout=2 * PATIENCE)
    said = finished.output.splitlines()
    if in_loop:
        assert said.pop(0) == "Hel", finished.output
    assert finished.code == 0, finished.output
    return said


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("consume", CONSUME)
def test_ctrl_c_ends_the_run_that_the_main_thread_consumes_and_the_program_ends(
    consume: str, end: str
) -> None:
    assert interrupted(consume, end, "cancel") == [
        "interrupted 1",
        "cancelled consumer_lost",
        "session_created run_started event cancel_requested run_ended",
        "consumer_lost",
    ]


@pytest.mark.parametrize("consume", CONSUME)
def test_ctrl_c_leaves_a_run_that_detaches_to_itself(consume: str) -> None:
    assert interrupted(consume, "just ends", "detach") == ["interrupted 1", "None None", "Hello"]


LEAVING = """
import os, signal, sys, threading
from apps import KEY, app_with, kinds
from blocked import wait_until_blocked
from intermission import Runner
from intermission.testing import Gate, ScriptedModel, text
from intermission_storage import LmdbEventLog, LogClosedError

gate, leaving, main = Gate(), threading.Event(), threading.main_thread()

def interrupt():
    leaving.wait()
    wait_until_blocked(main, looks=50)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    with Runner(app_with(ScriptedModel(text(gate, "late"))), log=sys.argv[1]) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        leaving.set()
except KeyboardInterrupt:
    print("interrupted", run.status, run.cancel_report.source)
try:
    runner.sessions.events(**KEY)
except LogClosedError:
    print("closed")
gate.open()
with LmdbEventLog(sys.argv[1]) as log:
    print(*kinds(log))
"""


def test_ctrl_c_while_the_block_of_a_runner_is_left_ends_the_grace_and_the_close_is_done(
    tmp_path: Path,
) -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    log = str(tmp_path / "log")
    finished = run(sys.executable, "-c", LEAVING, log, env=env, timeout=2 * PATIENCE)
    assert finished.output.splitlines() == [
        "interrupted cancelled shutdown",
        "closed",
        "session_created run_started event cancel_requested run_ended",
    ], finished.output
    assert finished.code == 0
