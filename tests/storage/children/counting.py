"""Adds to one `user:` counter and one list, run after run, with a runner of its own."""

import sys

from children import say, told
from intermission import AgentContext, App, BaseAgent, Content, Runner
from intermission.agents.effects import Steps
from intermission_storage import LmdbEventLog


class Counting(BaseAgent):
    """An agent that adds one to what it was told."""

    def run(self, context: AgentContext) -> Steps:
        """Add."""
        context.state.add("user:count", 1)
        context.state.append("app:who", context.session_id)
        yield context.event(self.name, content=Content.model(str(context.state["user:count"])))


path, session, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
with (
    LmdbEventLog(path, sync=False) as log,
    Runner(App("app", Counting("counting")), log=log) as runner,
):
    say("ready")
    told()
    for _ in range(rounds):
        runner.run(user_id="u", session_id=session, message="go").answer(60)
    say("done")
    told()
    say(runner.run(user_id="u", session_id=session, message="go").answer(60))
