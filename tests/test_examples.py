import sys
from pathlib import Path

import pytest

import tree

EXPECTED = {
    "billing_plugin.py": (
        "ada: 12 tokens, completed\nben: 0 tokens or more, failed\neve: 0 tokens or more, cancelled\n"
    ),
    "budget_supervisor.py": "stopped: the budget is spent\n",
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


def test_every_example_is_expected_to_print_something() -> None:
    assert sorted(path.name for path in (tree.ROOT / "examples").glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_its_page_says(name: str, tmp_path: Path) -> None:

    finished = tree.run(sys.executable, str(tree.ROOT / "examples" / name), cwd=tmp_path, timeout=60)
    finished.check()

    assert finished.output == EXPECTED[name]
