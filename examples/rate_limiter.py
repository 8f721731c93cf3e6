"""An actor that everybody asks: it spaces the calls of a tool, whichever session makes them."""

import time

from intermission import Actor, ActorSystem, App, LlmAgent, Runner, ToolContext
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog


class Limiter(Actor):
    """Gives each who asks its turn: the answer is how many seconds to wait for it."""

    def __init__(self, a_second: float) -> None:
        super().__init__()
        self.step = 1 / a_second
        self.next = time.monotonic()

    def on_receive(self, message: object) -> float:
        now = time.monotonic()
        turn, self.next = max(self.next, now), max(self.next, now) + self.step
        return turn - now


def weather(city: str, tool_context: ToolContext) -> str:
    """Look up the weather of a city."""
    # This wait ends at once when the run is cancelled; a time.sleep would not.
    tool_context.cancellation.sleep(limiter.ask("my turn", timeout=5))
    return f"sunny in {city}"


cities = [("weather", {"city": city}) for city in ("Rome", "Oslo", "Lima")]
app = App("demo", LlmAgent("agent", ScriptedModel(calls(*cities), "All sunny."), tools=[weather]))

with ActorSystem() as system, Runner(app, log=MemoryEventLog()) as runner:
    limiter = system.start(Limiter, a_second=20)
    begun = time.monotonic()
    print(runner.run(user_id="ada", session_id="s1", message="How is the weather?").answer())
    print("three calls took at least a tenth of a second:", time.monotonic() - begun >= 0.1)
