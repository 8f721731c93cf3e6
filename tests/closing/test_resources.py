"""After the block of a runner nothing of it is left: no child, no socket, no warning."""

import os
import sys
from pathlib import Path

import pytest

from children import PATIENCE
from tree import ROOT, environment, run

PROGRAM = """
import gc, os, subprocess, sys, threading
from contextlib import closing
from apps import APP, KEY
from intermission import App, LlmAgent, Runner, blocking
from intermission.models import ChatCompletions
from intermission.testing import ModelServer, assert_nothing_left, calls, text

def child(seconds: float) -> str:
    script = f"import time; print(1, flush=True); time.sleep({{seconds}})"
    with blocking.popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        began.set()
        return str(blocking.communicate(process)[0])

began = threading.Event()
quick, endless = calls(("child", {{"seconds": 0}})), calls(("child", {{"seconds": 600}}))
with ModelServer(quick, text("Hel", "lo"), endless) as server:
    with assert_nothing_left(), closing(ChatCompletions("m", base_url=server.url, api_key="k")) as model:
        with Runner(App(APP, LlmAgent("agent", model, tools=[child])), log=sys.argv[1]) as runner:
            assert runner.run(**KEY, message="hi").answer({patience}) == "Hello"
            began.clear()
            run = runner.run(**KEY, message="again").start()
            assert began.wait({patience})
            runner.close(grace=0)
        assert run.status == "cancelled" and run.wait_terminated({patience})
        gc.collect()
print("left", flush=True)
"""


@pytest.mark.scenario("H4")
def test_a_runner_with_a_client_and_a_child_leaves_neither_and_no_warning(tmp_path: Path) -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    program = PROGRAM.format(patience=PATIENCE)
    options = ("-W", "error", "-X", "dev", "-c", program)
    finished = run(sys.executable, *options, str(tmp_path / "log"), env=env, timeout=PATIENCE)
    finished.check()
    assert finished.output.split() == ["left"]
