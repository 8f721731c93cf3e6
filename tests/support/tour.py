"""A session that lives through everything, in processes that are killed in the middle of it.

Its app books a journey: two tools one after another, two branches, a loop of two rounds, and a call that
needs leave. `live` does whatever is next, until the booking is complete, whatever others have done before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps import APP, KEY
from failpoints import Diary, DyingLog, Points
from intermission import (
    App,
    FunctionCall,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    ResumabilityConfig,
    Run,
    Runner,
    SequentialAgent,
)
from planned import Planned, consume, effect_tool, times

__all__ = ["AGENTS", "EFFECTS", "live", "tour"]

AGENTS = {
    "planner": ("reserve", "charge"),
    "hotels": ("hotel",),
    "trains": ("train",),
    "checker": ("check",),
    "sender": ("send",),
}
"""The tools of each agent, each of which it calls once in its turn."""

EFFECTS = ["reserve", "charge", "hotel", "train", "check", "check", "send"]
"""What is done in one booking, each once if nobody dies."""


def tour(diary: Diary, points: Points, on_resume: str = "rerun") -> App:
    """Return the app, with what becomes of a call of `charge` that had begun."""

    def look_up(call: FunctionCall) -> Mapping[str, Any] | None:
        found = times(diary, call.id)
        return {"found": found} if found else None

    charge = look_up if on_resume == "look up" else on_resume

    def agent(name: str) -> LlmAgent:
        tools = [
            effect_tool(
                tool,
                diary,
                points,
                require_confirmation=tool == "send",
                on_resume=charge if tool == "charge" else "rerun",
            )
            for tool in AGENTS[name]
        ]
        return LlmAgent(name, Planned(name, AGENTS[name], diary, points), tools=tools)

    root = SequentialAgent(
        "tour",
        sub_agents=[
            agent("planner"),
            ParallelAgent("offers", sub_agents=[agent("hotels"), agent("trains")]),
            LoopAgent("loop", sub_agents=[agent("checker")], max_iterations=2),
            agent("sender"),
        ],
    )
    return App(APP, root, resumability_config=ResumabilityConfig(is_resumable=True))


def live(
    folder: str, *, die: str | int | None = None, late: float | None = None, on_resume: str = "rerun"
) -> None:
    """Do what is next until the booking is complete, or until a place is reached where the process dies."""
    diary = Diary(folder)
    points = Points(diary, die, late)
    with (
        DyingLog(Path(folder) / "log", points) as log,
        Runner(tour(diary, points, on_resume), log=log) as runner,
    ):
        while (run := _next(runner)) is not None:
            consume(run, diary, points)


def _next(runner: Runner) -> Run | None:
    left = runner.recover()
    if left:
        return left[0]
    pending = runner.pending(**KEY)
    if pending:
        return runner.resume(**KEY, answers=[pending[0].approve()])
    if runner.sessions.list(user_id=KEY["user_id"]) and runner.sessions.runs(**KEY)[-1].status:
        return None
    return runner.run(**KEY, message="Book.")
