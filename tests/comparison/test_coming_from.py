"""The programs for other frameworks, on the pages for those who come from there. Ours run as on any page."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from frameworks import FRAMEWORKS, install, python_of
from tree import read

PAGES = {"google-adk": "docs/coming-from-adk.md", "langgraph": "docs/coming-from-langgraph.md"}
PATIENCE = 120.0  # seconds; the first import of such a framework takes many


def programs(page: str) -> list[str]:
    return re.findall(r"^```python3\n(.*?)^```$", read(Path(page)), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("framework", PAGES)
def test_a_program_of_another_framework_is_python_and_asserts_what_it_shows(framework: str) -> None:
    found = programs(PAGES[framework])

    assert len(found) >= 3
    for program in found:
        compile(program, PAGES[framework], "exec")
        assert "\nassert " in program


@pytest.mark.long
@pytest.mark.parametrize("framework", PAGES)
def test_the_programs_of_a_page_run_with_the_other_framework(framework: str, tmp_path: Path) -> None:
    assert FRAMEWORKS[framework].packages
    install(framework, tmp_path)
    script = tmp_path / "programs.py"
    script.write_text("\n\n".join(map(textwrap.dedent, programs(PAGES[framework]))))

    command = [str(python_of(framework, tmp_path)), "-W", "ignore", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, timeout=PATIENCE, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(tmp_path)  # some hundred megabytes
