"""Models and tools whose every step is a place to die at, and is written down in a folder's diary.

`planned_app` is the smallest app of them: one agent that calls its tools once, and says "done" then.
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from apps import APP, KEY
from failpoints import Diary, DyingLog, Points, kill, said_by
from intermission import (
    AgentContext,
    App,
    Content,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    Part,
    Plugin,
    ResumabilityConfig,
    Run,
    RunConfig,
    Runner,
    ToolContext,
    ToolExecution,
    Usage,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.tools.base import LookUp

__all__ = ["Looking", "Planned", "consume", "effect_tool", "live", "planned_app", "stubborn", "times"]


class Planned:
    """A model that calls all tools at first, and says "done" when it has the responses."""

    def __init__(self, name: str, tools: Sequence[str], diary: Diary, points: Points) -> None:
        self.name = name
        self._tools = tools
        self._diary = diary
        self._points = points

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        self._points.reach(f"before {self.name} is asked")
        last = request.contents[-1]
        self._diary.write("asked", [self.name, [dict(one.response) for one in last.function_responses]])
        if last.function_responses:
            content = Content.model("done")
        else:
            calls = (FunctionCall(id="", name=tool, args={}) for tool in self._tools)
            content = Content("model", tuple(Part(function_call=call) for call in calls))
        self._points.reach(f"after {self.name} is asked")
        yield ModelResponse(content=content, usage=Usage(3, 1, 4))


def times(diary: Diary, call_id: str) -> int:
    """Return how often a call has had its effect."""
    return sum(line[1] == call_id for line in diary.read("effects"))


def effect_tool(
    name: str,
    diary: Diary,
    points: Points,
    *,
    require_confirmation: bool = False,
    on_resume: str | LookUp = "rerun",
) -> FunctionTool:
    """Return a tool that writes its effect down, and returns how often it has for that call."""

    def effect(tool_context: ToolContext) -> dict[str, Any]:
        call_id = tool_context.function_call_id
        points.reach(f"before the effect of {name}")
        diary.write("effects", [name, call_id])
        points.reach(f"after the effect of {name}")
        return {"times": times(diary, call_id)}

    effect.__name__ = name
    return FunctionTool(effect, require_confirmation=require_confirmation, on_resume=on_resume)


def consume(run: Run, diary: Diary, points: Points) -> None:
    """Consume a run to its end, and write down what was shown and how it ended."""
    for event in run:
        if not event.partial:
            name = said_by(event)
            points.reach(f"before {name} is shown")
            diary.write("shown", event.id)
            points.reach(f"after {name} is shown")
    diary.write("ends", run.result(60).status)


def planned_app(
    diary: Diary, points: Points, count: int = 3, *, resumable: bool = True, plugins: Sequence[Plugin] = ()
) -> App:
    """Return an app of one agent that calls tools `tool_0`, `tool_1` and so on."""
    names = [f"tool_{number}" for number in range(count)]
    tools = [effect_tool(name, diary, points) for name in names]
    agent = LlmAgent("agent", Planned("agent", names, diary, points), tools=tools)
    return App(APP, agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=resumable))


class Looking(Plugin):
    """Looks at messages before they are stored."""

    def __init__(self) -> None:
        super().__init__("looking")

    def on_user_message_callback(self, *, invocation_context: AgentContext, user_message: Content) -> None:
        """See `Plugin`."""


def live(
    folder: str,
    *,
    count: int = 3,
    mode: str = "PARALLEL",
    die: str | int | None = None,
    resumable: bool = True,
    plenty: int = 1,
    crowd: Sequence[str] = (),
    looks: bool = False,
) -> None:
    """Begin a run in each of so many sessions, or go on with those that are left, to the end of all.

    Session `s` is the first; the others are `s1`, `s2` and so on.
    """
    diary = Diary(folder)
    points = Points(diary, die, crowd=crowd)
    config = RunConfig(tool_execution=ToolExecution[mode])
    plugins = [Looking()] if looks else []
    app = planned_app(diary, points, count, resumable=resumable, plugins=plugins)
    with (
        DyingLog(Path(folder) / "log", points) as log,
        Runner(app, log=log, config=config) as runner,
    ):
        runs = runner.recover(max_attempts=100) or [
            runner.run(user_id="u", session_id=f"s{number or ''}", message="go") for number in range(plenty)
        ]
        for run in runs[1:]:
            run.start()
        for run in runs:
            consume(run, diary, points)


def stubborn(folder: str) -> None:
    """Cancel a run whose tool goes on whatever happens, and die when that is durable."""
    diary = Diary(folder)
    points = Points(diary, crowd=["before the effect of tool_1 #1", "nowhere"])
    app = planned_app(diary, points)
    runner = Runner(app, log=Path(folder) / "log")
    run = runner.run(**KEY, message="go").start()
    while "before the effect of tool_1 #1" not in diary.read("points"):
        threading.Event().wait(0.001)
    run.cancel("enough")
    assert run.result(60).status == "cancelled"
    kill()
