"""Tools with `isolation="process"` in scripts: where their functions are found, and how programs end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tree
from pids import has_ended, until_ended, written
from pools import until

pytestmark = pytest.mark.slow

HEAD = """
import os, signal, sys, threading
from pathlib import Path
from intermission import App, FunctionTool, LlmAgent, Runner, tool
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog

print("loaded as", __name__, flush=True)

@tool(isolation="process")
def double(number: int) -> int:
    '''Double.'''
    return 2 * number

def spin(path: str) -> None:
    '''Compute for ever.'''
    Path(path + ".new").write_text(f"{os.getpid()}\\n")
    Path(path + ".new").rename(path)
    while True:
        pass

def nap(path: str) -> None:
    '''Sleep for a minute.'''
    Path(path + ".new").write_text(f"{os.getpid()}\\n")
    Path(path + ".new").rename(path)
    threading.Event().wait(60)

def runner_of(*made):
    tools = [double, FunctionTool(spin, isolation="process"), FunctionTool(nap, isolation="process")]
    model = ScriptedModel(calls(*made), default="done")
    return Runner(App("app", LlmAgent("agent", model, tools=tools)), log=MemoryEventLog())

def main():
    with runner_of(("double", {"number": 21})) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        print(run.answer(30), flush=True)
        print([r.response for e in run.result().events for r in e.function_responses], flush=True)
"""

GUARDED = HEAD + '\nif __name__ == "__main__":\n    main()\n'
UNGUARDED = HEAD + "\nmain()\n"


def script(tmp_path: Path, text: str, name: str = "script.py") -> str:
    """Write a script, and return where it is."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_function_of_a_script_is_found_and_its_main_block_is_not_run_again(tmp_path: Path) -> None:
    finished = tree.run(sys.executable, "-W", "error", script(tmp_path, GUARDED), timeout=60)
    finished.check()
    assert finished.output.splitlines() == [
        "loaded as __main__",
        "loaded as __mp_main__",
        "done",
        "[{'result': 42}]",
    ]


def test_a_function_of_a_module_that_is_run_is_found_with_its_package(tmp_path: Path) -> None:
    script(tmp_path, "", "package/__init__.py")
    script(tmp_path, "", "package/near.py")
    script(tmp_path, GUARDED.replace("import os,", "from . import near\nimport os,", 1), "package/program.py")
    finished = tree.run(sys.executable, "-m", "package.program", cwd=tmp_path, timeout=60)
    finished.check()
    assert finished.output.splitlines()[-1] == "[{'result': 42}]"


def test_a_script_without_the_guard_is_told_to_have_one_and_does_its_work_once(tmp_path: Path) -> None:
    finished = tree.run(sys.executable, script(tmp_path, UNGUARDED), timeout=60)
    finished.check()
    lines = [line for line in finished.output.splitlines() if not line.startswith(" ")]
    assert lines.count("loaded as __main__") == lines.count("loaded as __mp_main__") == 1
    assert lines.count("done") == 1
    assert lines[-1] == "[{'status': 'error', 'message': 'The tool failed.'}]"
    assert "script.py starts a run when it is only loaded, to find a tool in it" in finished.output
    assert "under `if __name__ == '__main__':`, or move the tool into a module" in finished.output


def test_a_script_that_calls_its_tool_itself_without_the_guard_is_told_so(tmp_path: Path) -> None:
    call = HEAD.replace("def main():", "def unused():") + (
        "\nsys.path.insert(0, os.environ['SUPPORT'])\nfrom turns import context\n"
        "print(double.call({'number': 2}, context()))\n"
    )
    env = tree.environment() | {"SUPPORT": str(tree.ROOT / "tests/support")}
    finished = tree.run(sys.executable, script(tmp_path, call), timeout=60, env=env)
    assert finished.code != 0
    assert finished.output.count("loaded as __mp_main__") == 1
    assert "starts a run when it is only loaded" in finished.output


def test_a_script_that_exits_when_it_is_loaded_is_an_error_that_says_so(tmp_path: Path) -> None:
    text = GUARDED.replace("def main():", "import logging\nlogging.basicConfig()\n\ndef main():")
    text += "else:\n    sys.exit('not like this')\n"
    finished = tree.run(sys.executable, script(tmp_path, text), timeout=60)
    finished.check()
    assert "ends its process while it is loaded ('not like this')" in finished.output


def test_what_is_given_by_c_is_refused(tmp_path: Path) -> None:
    finished = tree.run(sys.executable, "-c", GUARDED, timeout=60)
    assert "put the function into a module" in finished.output


@contextmanager
def began(path: Path, text: str) -> Generator["subprocess.Popen[bytes]"]:
    """Start a script, and end it with the block."""
    command = [sys.executable, script(path, text)]
    with subprocess.Popen(command, env=tree.environment(), stdout=subprocess.DEVNULL) as program:
        try:
            yield program
        finally:
            program.kill()


WORK = """
if __name__ == "__main__":
    runner = runner_of(("double", {"number": 1}), (TOOL, {"path": PATH}))
    run = runner.run(user_id="u", session_id="s", message="hi").start()
    END
"""


WAIT = """def wait():
        while not Path(PATH).exists(): pass
        Path(PATH + ".left").touch()

    """


def working(tmp_path: Path, tool: str, end: str) -> str:
    """A script whose run is in a tool."""
    work = WORK.replace("TOOL", repr(tool)).replace("PATH", repr(str(tmp_path / "pid"))).replace("END", end)
    return HEAD + work


@pytest.mark.parametrize("tool", ["spin", "nap"])
def test_when_the_program_is_killed_the_processes_of_its_tools_end(tool: str, tmp_path: Path) -> None:
    with began(tmp_path, working(tmp_path, tool, "threading.Event().wait()")) as program:
        (pid,) = written(tmp_path / "pid")
        children = Path(f"/proc/{program.pid}/task")
        every = [
            int(child) for thread in children.iterdir() for child in (thread / "children").read_text().split()
        ]
        assert pid in every
        program.kill()
        until_ended(*every)


def test_what_a_killed_programs_tool_has_started_in_its_group_ends_too(tmp_path: Path) -> None:
    text = working(tmp_path, "spin", "threading.Event().wait()").replace(
        "    while True:\n",
        "    import subprocess\n"
        "    subprocess.Popen(['sh', '-c', f'echo $$ > {path}.shell; exec sleep 1000'])\n"
        "    while True:\n",
    )
    with began(tmp_path, text) as program:
        (shell,) = written(tmp_path / "pid.shell")
        assert not has_ended(shell)
        program.kill()
        until_ended(shell)


@pytest.mark.scenario("H1")
@pytest.mark.parametrize(
    "end",
    [
        "wait(); runner.close(grace=1)",
        "wait()",
        "wait(); signal.raise_signal(signal.SIGINT)",
    ],
    ids=["close", "no close", "Ctrl-C"],
)
@pytest.mark.parametrize("tool", ["spin", "nap"])
def test_a_program_ends_though_its_tool_does_not(tool: str, end: str, tmp_path: Path) -> None:
    wait = WAIT.replace("PATH", repr(str(tmp_path / "pid")))
    with began(tmp_path, working(tmp_path, tool, wait + end)) as program:
        (pid,) = written(tmp_path / "pid")
        until((tmp_path / "pid.left").exists)
        left = time.monotonic()
        code = program.wait(30)
        assert time.monotonic() - left < 15, "a second where the machine is not busy"
        assert code == (0 if "SIGINT" not in end else -signal.SIGINT)
        until_ended(pid)


def test_a_forked_child_keeps_no_process_of_a_tool_alive(tmp_path: Path) -> None:
    path = repr(str(tmp_path / "fork"))
    wait = WAIT.replace("PATH", repr(str(tmp_path / "pid")))
    fork = f"{wait}wait()\n    forked = os.fork()\n    if forked: Path({path}).write_text(f'{{forked}}\\n')\n"
    text = working(tmp_path, "spin", fork + "    threading.Event().wait()")
    with began(tmp_path, text) as program:
        (pid,), (forked,) = written(tmp_path / "pid"), written(tmp_path / "fork")
        try:
            program.kill()
            until_ended(pid)
            assert not has_ended(forked)
        finally:
            os.kill(forked, signal.SIGKILL)
