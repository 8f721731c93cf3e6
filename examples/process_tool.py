"""A tool that looks at nothing while it computes, and ends with its run all the same."""

import os
from itertools import count
from pathlib import Path

from intermission import App, LlmAgent, Runner, ToolContext, tool
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog

STARTED = Path("started")  # only for the demonstration: it shows that the tool has begun


@tool(isolation="process")
def crack(digest: int, tool_context: ToolContext) -> int:
    """Find the number with a digest.

    Args:
        digest: Of the number.
    """
    Path(f"{STARTED}.new").write_text(f"{os.getpid()} of {tool_context.user_id}")
    Path(f"{STARTED}.new").rename(STARTED)
    return next(number for number in count() if hash((number, "salt")) == digest)  # for ever, as it were


def main() -> None:
    STARTED.unlink(missing_ok=True)  # that of an earlier time
    model = ScriptedModel(calls(("crack", {"digest": 7})), default="It would have taken too long.")
    with Runner(App("lab", LlmAgent("agent", model, tools=[crack])), log=MemoryEventLog()) as runner:
        session = runner.session(user_id="ada", session_id="s1")
        run = session.run("Crack 7.").start()
        while run.status is None and not STARTED.exists():
            pass
        pid, _, user = STARTED.read_text().partition(" of ")
        print("in a process of its own:", int(pid) != os.getpid(), "for", user)

        run.cancel("never mind")
        print(run.result().status, "and terminated:", run.wait_terminated(30))
        print("the process is there:", Path(f"/proc/{pid}").exists())
        print(session.run("Well?").answer())


if __name__ == "__main__":  # the tool's process loads this file, too, and must not begin anew
    main()
