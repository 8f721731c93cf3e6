"""A tool that exports in chunks, ends within one when cancelled, and goes on there when called again."""

from intermission import App, LlmAgent, Runner, ToolContext
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import MemoryEventLog

CHUNKS = 5
written: dict[tuple[str, int], str] = {}  # stands for a bucket; writing a key again changes nothing
third = Gate()  # only for the demonstration: the third chunk waits for it, once


def export(report: str, tool_context: ToolContext) -> dict[str, object]:
    """Export a report; one that was broken off goes on.

    Args:
        report: Which one.
    """
    scope = tool_context.cancellation
    new = 0
    for number in range(CHUNKS):
        scope.check()  # one look for each chunk: a cancel is seen within the time that one takes
        if (report, number) in written:
            continue  # done by an earlier call
        data = f"rows of chunk {number}"
        if number == 2 and not third.arrivals:
            third.wait()
        with scope.shield():  # short, and not to be left half done
            written[report, number] = data
            new += 1
    return {"report": report, "chunks": CHUNKS, "new": new}


ask = calls(("export", {"report": "2026-11"}))
model = ScriptedModel(ask, ask, "The report is complete.")
app = App("reports", LlmAgent("clerk", model, tools=[export]))

with Runner(app, log=MemoryEventLog()) as runner:
    session = runner.session(user_id="ada", session_id="s1")

    run = session.run("Export November.").start()
    third.arrived()
    receipt = run.cancel("too many rows")
    print(run.result().status, "with", len(written), "chunks, still running:", len(receipt.still_running) > 0)
    third.open()
    run.wait_terminated()
    print("terminated with", len(written), "chunks")

    run = session.run("Go on, please.")
    print(run.answer())
    (response,) = [one for event in run.result().events for one in event.function_responses]
    print(response.response)
