"""A runner whose plugin bills each run, in a process that may die while it does.

Says "ended" and the run's id when the hook is called; the hook returns when it is told "go". What is billed
is a line in a file. Says "closed" at the end.
"""

import sys
import threading
from pathlib import Path

from children import say, told
from intermission import App, LlmAgent, Plugin, Run, Runner, RunRecord, RunResult
from intermission.testing import ScriptedModel
from intermission_storage import LmdbEventLog

turn = threading.Lock()


class Billing(Plugin):
    """Bills."""

    def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
        """Write a line."""
        say(["ended", run.invocation_id])
        with turn:  # several threads may not read one line each
            word = told()
        if word == "go":
            with Path(sys.argv[2]).open("a") as bills:
                bills.write(f"{run.invocation_id}\n")


with (
    LmdbEventLog(sys.argv[1], sync=False) as log,
    Runner(
        App("app", LlmAgent("agent", ScriptedModel(default="ok")), plugins=[Billing("billing")]), log=log
    ) as runner,
):
    runner.run(user_id="u", session_id="s", message="go").result(60)
say("closed")
