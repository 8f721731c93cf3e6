"""The frameworks that ours is compared with, each in a virtual environment of its own."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench import write
from tree import ROOT

__all__ = ["FRAMEWORKS", "PLACE", "Compared", "install", "python_of"]

PLACE = ROOT / ".bench" / "cancel"


class Compared(NamedTuple):
    """A framework.

    Attributes:
        packages: What pip installs for it; nothing for what is here.
        adapter: The script that plays a scene with it.
        plain: How it is cancelled.
        streaming: How it is cancelled while it streams, if that differs.
    """

    packages: tuple[str, ...]
    adapter: str
    plain: str
    streaming: str = ""


TASK = "`task.cancel()`"
FRAMEWORKS = {
    "intermission": Compared((), "with_intermission", "`run.cancel()`"),
    "google-adk": Compared(("google-adk",), "with_google_adk", f"`abort_signal`, {TASK}"),
    "langgraph": Compared(("langgraph", "langchain", "langchain-openai"), "with_langgraph", TASK),
    "openai-agents": Compared(("openai-agents",), "with_openai_agents", TASK, "`result.cancel()`"),
    "pydantic-ai": Compared(("pydantic-ai-slim[openai]",), "with_pydantic_ai", "`token.cancel()`"),
}


def python_of(name: str, place: Path) -> Path:
    """Return the interpreter that has a framework, which may not be there."""
    return place / name / "bin" / "python" if FRAMEWORKS[name].packages else Path(sys.executable)


def install(name: str, place: Path) -> None:
    """Install a framework, if it is not there."""
    python = python_of(name, place)
    if not python.exists():
        write(f"installing {name}")
        subprocess.run([sys.executable, "-m", "venv", str(place / name)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *FRAMEWORKS[name].packages]
        subprocess.run(pip, check=True)
