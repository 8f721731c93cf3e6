import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tree

EXPECTED = {
    "approval.py": (
        "paused\n"
        "refund of 42 euros, asked by clerk\n"
        "You get 42 euros back.\n"
        "completed again, refunds made: 1\n"
    ),
    "own_agent.py": (
        "failed ['ada', 'bob']\ncompleted ['ada', 'bob', 'carol', 'dora']\n4 letters are sent.\n"
    ),
    "parallel_workflow.py": (
        "prices on research.prices: Tea is 3 euros.\n"
        "stocks on research.stocks: There are 7 boxes.\n"
        "join: 7 boxes of tea, 3 euros each.\n"
    ),
    "sequential_workflow.py": (
        "writer: Tea grows in hills.\n"
        "checker: Tea grows in hills, mostly.\n"
        "translator: Thee groeit in heuvels, meestal.\n"
        "Say it in Dutch: Tea grows in hills, mostly.\n"
    ),
    "async_tool.py": "The sky is blue everywhere.\n{'cities': ['Rome', 'Oslo', 'Lima']}\n",
    "client_chat.py": (
        "> I am listening.\n"
        "> the newest turn of session 'terminal' has ended, so nothing is left to do. Nothing was stored.\n"
        "> "
    ),
    "chat.py": "> I am listening.\n> I am listening.\n> ",
    "billing_plugin.py": (
        "ada: 12 tokens, completed\nben: 0 tokens or more, failed\neve: 0 tokens or more, cancelled\n"
    ),
    "budget_supervisor.py": "stopped: the budget is spent\n",
    "crash_and_recover.py": (
        "reserve\ncharge\nthe first process ended with -9\ncharge\nship\nPaid and shipped.\n['receipt 1']\n"
    ),
    "web_worker_start.py": (
        "lifespan.startup.complete\nlifespan.shutdown.complete\n"
        "lifespan.startup.complete\ncontinued essay The essay.\nlifespan.shutdown.complete\n"
    ),
    "export_tool.py": (
        "cancelled with 2 chunks, still running: True\n"
        "terminated with 3 chunks\n"
        "The report is complete.\n"
        "{'report': '2026-11', 'chunks': 5, 'new': 2}\n"
    ),
    "web_cancel.py": ("s1 cancelled the client has hung up\ns1 completed whole\nb'Once ' b'Hello again.'\n"),
    "process_tool.py": (
        "in a process of its own: True for ada\n"
        "cancelled and terminated: True\n"
        "the process is there: False\n"
        "It would have taken too long.\n"
    ),
    "rate_limiter.py": "All sunny.\nthree calls took at least a tenth of a second: True\n",
    "quickstart.py": "It is in Utrecht.\ncompleted\n",
    "find_a_session_again.py": (
        "Nice to meet you, Ada.\n"
        "Your name is Ada.\n"
        "3 user I am Ada.\n"
        "4 friend Nice to meet you, Ada.\n"
        "7 user Who am I?\n"
        "8 friend Your name is Ada.\n"
        "['I am Ada.', 'Nice to meet you, Ada.', 'Who am I?']\n"
    ),
}


TYPED = {"chat.py": "Hello.\nStill there?\n", "client_chat.py": "Hello.\n/again\n"}

# An example that is itself tests, as its reader would have them.
TESTS = "test_support_agent.py"

# One that serves for ever; `tests/asyncio_callers/test_web_chat.py` tests it.
SERVER = "web_chat.py"


def test_every_example_is_expected_to_print_something() -> None:
    examples = sorted(path.name for path in (tree.ROOT / "examples").glob("*.py"))
    assert examples == sorted([*EXPECTED, TESTS, SERVER])


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(tree.ROOT / "examples" / name)],
        cwd=tmp_path,
        env=tree.environment(),
        input=TYPED.get(name, ""),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (0, EXPECTED[name])


def test_the_example_of_tests_passes(tmp_path: Path) -> None:
    copy = shutil.copy(tree.ROOT / "examples" / TESTS, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(copy)]
    finished = tree.run(*command, cwd=tmp_path, timeout=120)
    finished.check()
    assert "2 passed" in finished.output
