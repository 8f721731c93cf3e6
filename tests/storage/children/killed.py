"""A runner whose agent is to be killed where it stands: killed.py PATH MODE.

Of the tools that it calls the first returns, the others never do: in the mode "one_by_one" the second has
begun, in "at_once" all have. In the mode "streaming" it calls none, but has begun to speak. Says "standing"
when it is so far, and that is stored.
"""

import sys
import threading

from children import say
from intermission import App, LlmAgent, RunConfig, Runner, ToolExecution
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import Kind, LmdbEventLog

CONFIGS = {
    "one_by_one": RunConfig(tool_execution=ToolExecution.SEQUENTIAL),
    "at_once": RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE),
    "streaming": RunConfig(streaming=True),
}
STARTED = {"one_by_one": 2, "at_once": 3}


def work(name: str) -> str:
    """Work."""
    if name != "a":
        threading.Event().wait()
    return name


def main(path: str, mode: str) -> None:
    """Run, and never come back."""
    never = threading.Event()
    turn = calls(*[("work", {"name": name}) for name in "abc"])
    model = ScriptedModel(text("Hello ", Gate(), "world") if mode == "streaming" else turn)
    agent = LlmAgent("agent", model, tools=[work])
    with LmdbEventLog(path) as log, Runner(App("app", agent), log=log) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi", config=CONFIGS[mode])
        if mode == "streaming":
            next(iter(run))
        else:
            run.start()
            kinds = list[Kind]()
            while (kinds.count(Kind.CALL_STARTED), kinds.count(Kind.CALL_FINISHED)) != (STARTED[mode], 1):
                never.wait(0.001)
                kinds = [record.kind for record in log.read(log.streams()[0])]
        say("standing")
        never.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
