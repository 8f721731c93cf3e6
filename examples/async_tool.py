"""Async tools: three look-ups overlap on one loop, and no thread waits. No key: the model is scripted."""

import asyncio

from intermission import App, LlmAgent, Runner, ToolContext, tool
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog

all_there = asyncio.Barrier(3)  # stands for a slow service: nobody passes before all three are here


@tool(timeout=10)
async def weather(city: str, tool_context: ToolContext) -> dict[str, str]:
    """Look up the weather of a city.

    Args:
        city: Its name, in English.
    """
    await all_there.wait()
    tool_context.state.append("cities", city)
    return {"city": city, "sky": "blue"}


cities = ("Rome", "Oslo", "Lima")
model = ScriptedModel(calls(*(("weather", {"city": city}) for city in cities)), "The sky is blue everywhere.")
app = App("demo", LlmAgent("agent", model, tools=[weather]))

with Runner(app, log=MemoryEventLog()) as runner:
    print(runner.run(user_id="ada", session_id="s1", message="How is the weather?").answer())
    session = runner.sessions.get(user_id="ada", session_id="s1")
    print(session and session.state)
