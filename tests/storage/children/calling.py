"""A runner whose agent calls two tools, one after the other, of which the first never returns.

Says "calling" when the first has begun.
"""

import sys
import threading

from children import say
from intermission import App, LlmAgent, Runner
from intermission.testing import ScriptedModel, calls
from intermission_storage import LmdbEventLog


def work(name: str) -> None:
    """Work for ever."""
    say(["calling", name])
    threading.Event().wait()


agent = LlmAgent(
    "agent", ScriptedModel(calls(("work", {"name": "a"}), ("work", {"name": "b"}))), tools=[work]
)
with LmdbEventLog(sys.argv[1]) as log, Runner(App("app", agent), log=log) as runner:
    runner.run(user_id="u", session_id="s", message="go").result(60)
