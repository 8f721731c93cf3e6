"""A custom agent of four steps that keeps how far it has come, and a process that dies in it."""

from pathlib import Path

from apps import APP, KEY
from failpoints import kill
from intermission import AgentContext, App, BaseAgent, Content, ResumabilityConfig, Runner
from intermission.agents.effects import Call, SaveState, Steps

__all__ = ["Stepping", "live", "stepping_app"]


class Stepping(BaseAgent):
    """Says a number in each step.

    Args:
        dies: Whether its process dies in the third one.
    """

    def __init__(self, *, dies: bool = False) -> None:
        super().__init__("stepping")
        self.dies = dies
        self.made: list[int] = []

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for number in range(context.agent_state.get("next", 0), 4):
            if self.dies and number == 2:
                yield Call(kill)
            self.made.append(number)
            context.agent_state["next"] = number + 1
            yield context.event(self.name, content=Content.model(f"step {number}"))
        yield SaveState()


def stepping_app(agent: Stepping) -> App:
    """Return the app."""
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))


def live(folder: str) -> None:
    """Begin, and die."""
    with Runner(stepping_app(Stepping(dies=True)), log=Path(folder) / "log") as runner:
        runner.run(**KEY, message="go").result()
