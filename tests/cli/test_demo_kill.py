"""The part of the demo that kills a process: whatever happens to it, no process and no file is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tree
from intermission.cli.demo_kill import kill_and_recover
from intermission.cli.terminal import Screen
from intermission.testing import Gate, ModelServer, text

# A check that runs in the background is started with SIGINT ignored, and would hand that down.
PROGRAM = """
import pathlib, signal, sys
from intermission.cli.demo_kill import kill_and_recover
from intermission.cli.terminal import Screen

signal.signal(signal.SIGINT, signal.default_int_handler)
kill_and_recover(sys.argv[1], "a model", pathlib.Path(sys.argv[2]), Screen())
"""


@contextmanager
def held_in_its_models(folder: Path) -> "Generator[subprocess.Popen[str]]":
    """Give a process that watches another one, which waits for its models."""
    gates = Gate(), Gate()
    temporary = folder / "temporary"
    temporary.mkdir()
    with (
        ModelServer(*(text("Well, ", gate, "no.") for gate in gates)) as server,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, server.url, str(folder / "log")],
            stdout=subprocess.PIPE,
            # The other process has this one, too, and holds it open as long as it lives.
            stderr=subprocess.PIPE,
            env={**tree.environment(), "TMPDIR": str(temporary)},
            text=True,
        ) as process,
    ):
        for gate in gates:
            gate.arrived()
        try:
            yield process
        finally:
            process.kill()


def test_a_ctrl_c_while_another_process_is_watched_ends_that_one_and_leaves_no_file(tmp_path: Path) -> None:
    with held_in_its_models(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=60)

    assert process.returncode == -signal.SIGINT
    assert "runs it; this process reads the log" in shown
    assert errors.strip().endswith("KeyboardInterrupt")
    assert os.listdir(tmp_path / "temporary") == []


def test_the_other_process_ends_with_the_demo_however_that_ends(tmp_path: Path) -> None:
    with held_in_its_models(tmp_path) as process:
        process.kill()
        _, errors = process.communicate(timeout=60)  # returns when nobody has its end of the pipe any more

    assert errors == ""


def test_where_no_tool_can_be_interrupted_the_demo_says_so_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer("I had rather not.", "Nor I.") as server:
        assert not kill_and_recover(server.url, "a model", tmp_path / "log", Screen())

    assert "no tool was at work that could have been interrupted" in capsys.readouterr().out
