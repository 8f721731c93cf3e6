"""A runner whose agent says each word that the test tells it, in one run, until it is told "end".

Says "running" and the run's id when the run is under way, and the run's status at the end.
"""

import sys

from children import say, told
from intermission import AgentContext, App, BaseAgent, Content, Runner
from intermission.agents.effects import Call, Steps
from intermission_storage import LmdbEventLog


class Repeating(BaseAgent):
    """An agent that says what it is told."""

    def run(self, context: AgentContext) -> Steps:
        """Repeat."""
        say(["running", context.invocation_id])
        while (word := (yield Call(told))) != "end":
            yield context.event(self.name, content=Content.model(word))


with (
    LmdbEventLog(sys.argv[1], sync=False) as log,
    Runner(App("app", Repeating("repeating")), log=log) as runner,
):
    say(str(runner.run(user_id="u", session_id="s", message="go").result(60).status))
