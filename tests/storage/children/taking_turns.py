"""Runs in a session that another process wants, too: taking_turns.py PATH NAME TURNS.

"a" says "inside" when its first run is under way, and ends that when it is told to. "b" begins when there is
such a run, and says how its own try was refused. Then each does its turns; a run that is refused because the
session is busy is tried again. At the end it says its answers.
"""

import sys
from collections.abc import Iterator

from children import say, told
from intermission import App, LlmAgent, Runner, SessionBusyError
from intermission.keys import SessionKey
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import ScriptedModel
from intermission_storage import LmdbEventLog


class Waiting(ScriptedModel):
    """Waits in its first call until the test says that it may go on, if it is "a"'s."""

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        if not self.requests and name == "a":
            say("inside")
            told()
        return super().generate(request)


path, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
with (
    LmdbEventLog(path, sync=False) as log,
    Runner(App("app", LlmAgent("agent", Waiting(default="ok"))), log=log) as runner,
):

    def turn(message: str) -> str:
        """Run once, as often as it takes."""
        while True:
            try:
                return runner.run(user_id="u", session_id="s", message=message).answer(60)
            except SessionBusyError:
                continue

    if name == "a":
        turn("a first")
    else:
        log.follow(SessionKey("app", "u", "s").stream, after=2, timeout=60)
        try:
            runner.run(user_id="u", session_id="s", message="too early").answer(60)
        except SessionBusyError as error:
            say(type(error).__name__)
        told()
    say([turn(f"{name} {number}") for number in range(turns)])
