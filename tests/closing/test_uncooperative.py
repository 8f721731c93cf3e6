"""A tool that never ends keeps no process, closed or not, and its log says how the run has ended."""

import os
import sys
import time
from pathlib import Path

import pytest

from apps import records
from children import PATIENCE
from intermission_storage import LmdbEventLog
from pids import until_ended, written
from tree import ROOT, environment, run

PROGRAM = """
import asyncio, ctypes, os, signal, sys, threading, time
from pathlib import Path
from apps import KEY, app_with
from blocked import wait_until_blocked
from intermission import FunctionTool, RunConfig, Runner
from intermission.testing import ScriptedModel, calls
from pools import until
from process_tools import stubborn

NEVER, began, path = 600, threading.Event(), Path(sys.argv[1] + ".pid")
a_process = FunctionTool(stubborn, name="a_process", isolation="process")

def has_begun():
    until(lambda: began.is_set() or path.exists())

def a_thread() -> str:
    began.set()
    time.sleep(NEVER)

def a_c_call() -> str:
    began.set()
    ctypes.CDLL(None).sleep(NEVER)

async def a_task() -> str:
    began.set()
    while True:
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError:
            pass

async def a_blocked_loop() -> str:
    began.set()
    time.sleep(NEVER)

async def a_thread_of_the_loop() -> str:
    began.set()
    await asyncio.to_thread(time.sleep, NEVER)

def interrupt():
    has_begun()
    wait_until_blocked(threading.main_thread(), looks=50)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
args = {{"path": str(path)}} if {tool} is a_process else {{}}
app = app_with(ScriptedModel(calls(({tool!r}, args))), {tool})
runner = Runner(app, log=sys.argv[1], config=RunConfig(grace=0.2))
run = runner.run(**KEY, message="hi")
{end}
print("end of main", flush=True)
"""

ENDS = {
    "close": "run.start(); has_begun(); runner.close(grace=1)",
    "release": "run.start(); has_begun(); runner.close(grace=1, runs='release')",
    "block": "with runner: run.start(); has_begun(); run.cancel()",
    "Ctrl-C": """
threading.Thread(target=interrupt).start()
try:
    with runner:
        run.result()
except KeyboardInterrupt:
    pass
""",
    "no close": "run.start(); has_begun()",
}
STATUSES = {
    "close": "cancelled",
    "release": "interrupted",
    "block": "cancelled",
    "Ctrl-C": "cancelled",
    "no close": None,
}
OTHERS = ["a_c_call", "a_task", "a_blocked_loop", "a_thread_of_the_loop"]
PAIRS = [(tool, end) for tool in ("a_thread", "a_process") for end in ENDS] + [
    (tool, end) for tool in OTHERS for end in ("close", "no close")
]


@pytest.mark.scenario("H1")
@pytest.mark.parametrize(("tool", "end"), PAIRS)
def test_a_tool_that_never_ends_keeps_no_process(tool: str, end: str, tmp_path: Path) -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    program = PROGRAM.format(tool=tool, end=ENDS[end])
    began = time.monotonic()
    finished = run(sys.executable, "-c", program, str(tmp_path / "log"), env=env, timeout=PATIENCE / 2)

    assert finished.output.splitlines()[-1:] == ["end of main"], finished.output
    assert finished.code == 0, finished.output
    assert time.monotonic() - began < PATIENCE / 2  # of 600 s that the tool takes
    with LmdbEventLog(tmp_path / "log") as log:
        stored = records(log)
    assert [record.data["tool"] for record in stored if record.kind == "call_started"] == [tool]
    ends = [record.data["status"] for record in stored if record.kind == "run_ended"]
    assert ends == ([] if STATUSES[end] is None else [STATUSES[end]])
    if tool == "a_process":
        until_ended(*written(tmp_path / "log.pid"))
