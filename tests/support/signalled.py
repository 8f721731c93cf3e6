"""An app whose messages name what its tool does, for processes that get signals in mid-run."""

import os
import threading
from collections.abc import Iterator

from apps import APP
from intermission import App, Content, FunctionCall, LlmAgent, Part, ResumabilityConfig, ToolContext
from intermission.models import ModelRequest, ModelResponse

__all__ = ["NEVER", "began", "say", "signalled_app"]

NEVER = 600.0  # seconds

began = threading.Semaphore(0)  # one for each tool that has begun


def sleep(seconds: float, tool_context: ToolContext) -> str:
    """Sleep, and end with the run."""
    began.release()
    tool_context.cancellation.sleep(seconds)
    return "slept"


def ignore(seconds: float) -> str:
    """Sleep, whatever becomes of the run."""
    began.release()
    threading.Event().wait(seconds)
    return "slept"


class _ByMessage:
    """Calls the tool that the message names, `"sleep 5"`, and says "done" then."""

    name = "by message"

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        """See `Model.generate`."""
        last = request.contents[-1]
        if last.function_responses:
            yield ModelResponse(content=Content.model("done"))
            return
        tool, _, seconds = last.text.partition(" ")
        call = FunctionCall(id="", name=tool, args={"seconds": float(seconds)})
        yield ModelResponse(content=Content("model", (Part(function_call=call),)))


def signalled_app(*, resumable: bool) -> App:
    """Return the app."""
    agent = LlmAgent("agent", _ByMessage(), tools=[sleep, ignore])
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=resumable))


def say(*words: object) -> None:
    """Tell the test, in one write."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())
