"""Owns a run: owner.py LOG. Its second tool says "in tool" and waits for a message; then says how it ended.

What it says last is the run's status and the type of its error.
"""

import sys

from apps import APP, KEY
from children import say, told
from intermission import App, LlmAgent, ResumabilityConfig, Runner
from intermission.testing import ScriptedModel, calls


def first() -> str:
    """Return at once."""
    return "first"


def second() -> str:
    """Wait until the test says so."""
    say("in tool")
    told()
    return "of the owner"


def main(path: str) -> None:
    """Run."""
    model = ScriptedModel(calls(("first", {}), ("second", {})), default="done by the owner")
    app = App(
        APP,
        LlmAgent("agent", model, tools=[first, second]),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    with Runner(app, log=path) as runner:
        result = runner.run(**KEY, message="go").result()
        say([result.status, type(result.error).__name__])


if __name__ == "__main__":
    main(sys.argv[1])
