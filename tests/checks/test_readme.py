"""The two commands of the README are the ones that work, here and in CI."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from documents import Page
from intermission.cli import main
from tree import copy_tree, environment, read, run

DEMO = "pip install . && intermission demo"
CHECK = "pip install -e '.[dev]' && pytest"


def commands(page: Page) -> list[str]:
    """Return the commands of a page that install the project."""
    shown = {line.strip().removeprefix("$ ") for line in page.text.splitlines()}
    return sorted(line for line in shown if line.startswith("pip install"))


def test_the_readme_shows_one_command_for_the_demo_and_one_for_the_check() -> None:
    assert commands(Page.read(Path("README.md"))) == sorted([CHECK, DEMO])


def test_continuous_integration_ends_with_the_same_check() -> None:
    lines = [line for line in read(Path(".ci/run")).splitlines() if line and not line.startswith("#")]
    # It must be the last line: `set -e` does not see a failure on the left of `&&`.
    assert lines[-1] == CHECK
    assert "set -euo pipefail" in lines


def test_the_program_of_the_readme_can_be_talked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", read(Path("README.md")), re.MULTILINE | re.DOTALL)
    (tmp_path / "mine_of_the_readme.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "mine_of_the_readme", ModuleType("taken away again"))

    assert main(["run", "mine_of_the_readme.py:agent", "Where is 1042?"]) == 0
    # The program itself, which is for `python mine_of_the_readme.py`, has not run.
    assert capsys.readouterr().out.count("It is in Utrecht.") == 1
    assert not (tmp_path / "shop.lmdb").exists()


def test_the_commands_of_a_page_are_found() -> None:
    text = f"```console\n$ {DEMO}\n  1 session\n```\n\npip, however\n\n    {CHECK}\n"
    assert commands(Page("page.md", text)) == sorted([CHECK, DEMO])


@pytest.mark.slow
def test_the_demo_runs_in_a_fresh_environment(tmp_path: Path) -> None:
    root = copy_tree(tmp_path / "tree")
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", str(venv)).check()
    env = environment()
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        env.pop(name, None)
    script = f"set -e; . {shlex.quote(str(venv / 'bin/activate'))}; {DEMO}"
    finished = run("bash", "-c", script, cwd=root, env=env, timeout=600)
    finished.check()
    installed = re.search(r"^Successfully installed .*$", finished.output, re.MULTILINE)
    assert installed is not None
    # The last thing it shows, which takes a second process, from what was installed.
    assert "write_invoice twice, as call-" in finished.output[installed.end() :]
    # The output is no terminal, so it must be plain.
    assert "\x1b" not in finished.output
