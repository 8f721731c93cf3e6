"""A tool in a process of its own, whose runner's process is killed when the tool has begun."""

import os
import threading
from pathlib import Path
from typing import Any

from apps import APP, KEY
from failpoints import Diary, kill
from intermission import App, FunctionTool, LlmAgent, ResumabilityConfig, Runner, ToolContext
from intermission.testing import ScriptedModel, calls

__all__ = ["in_process_app", "live", "pay"]


def pay(folder: str, tool_context: ToolContext) -> dict[str, Any]:
    """Write down that this call was made, and by which process; the first time, wait for ever."""
    diary = Diary(folder)
    diary.write("effects", [tool_context.function_call_id, os.getpid()])
    times = len(diary.read("effects"))
    if times == 1:
        threading.Event().wait(3600)
    return {"times": times}


def in_process_app(model: ScriptedModel) -> App:
    """Return an app with that tool."""
    agent = LlmAgent("agent", model, tools=[FunctionTool(pay, isolation="process")])
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))


def live(folder: str) -> None:
    """Begin the run, and die when its tool has begun."""
    model = ScriptedModel(calls(("pay", {"folder": folder})))
    runner = Runner(in_process_app(model), log=Path(folder) / "log")
    runner.run(**KEY, message="go").start()
    while not Diary(folder).read("effects"):
        threading.Event().wait(0.001)
    kill()
