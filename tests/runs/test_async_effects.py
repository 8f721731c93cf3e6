"""What async tools leave in the log and in the state, and what ends their runs."""

import asyncio
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import process_tools
from apps import KEY, app_of, app_with, records
from async_gates import AsyncGate
from intermission import Cancelled, FunctionTool, LlmAgent, Runner, RunStatus, ToolContext
from intermission.models import ChatCompletions
from intermission.testing import ModelServer, ScriptedModel, calls
from intermission.tools import Tool
from intermission_storage import EventLog, MemoryEventLog
from pids import written
from plain_tools import begun
from process_tools import note

PATIENCE = 30.0
AT_ONCE = 5.0  # seconds, on a machine that does many other things; the page has what is measured
OTHER: Any = {"user_id": "u", "session_id": "other"}


def responses(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was told of its calls, in its last request."""
    return [
        dict(response.response)
        for content in model.requests[-1].contents
        for response in content.function_responses
    ]


def texts(log: EventLog) -> str:
    """All that is in the session, as text."""
    return "\n".join(str(record.data) for record in records(log))


async def noted_on_loop(path: str, tool_context: ToolContext) -> None:
    """Work on the loop until cancelled, and note when and why."""
    begun(path)
    try:
        await tool_context.cancellation.asleep(3600)
    except Cancelled as cancelled:
        note(path, cancelled)
        raise


TOOLS: list[Tool] = [
    FunctionTool(process_tools.noted, name="work"),
    FunctionTool(process_tools.noted, name="work", isolation="process"),
    FunctionTool(noted_on_loop, name="work"),
]
"""A tool of each kind. It works until it is cancelled, and notes when and why."""


def left_by_a_cancel(tool: Tool, path: Path) -> list[tuple[object, ...]]:
    """Cancel a run in a tool, which is told at once; return the shape of its records. The session goes on."""
    log, called = MemoryEventLog(), calls(("work", {"path": str(path)}))
    with (
        ModelServer(called, "again") as server,  # which refuses what no service would take
        closing(ChatCompletions("small", base_url=server.url, api_key="key")) as model,
        Runner(app_of(LlmAgent("agent", model, tools=[tool])), log=log) as runner,
    ):
        run = runner.run(**KEY, message="hi").start()
        written(path)
        cancelled_at = time.monotonic()
        run.cancel("enough")
        assert run.wait_terminated(PATIENCE)
        told_at, reason = Path(f"{path}.cancelled").read_text().split()
        assert reason == "enough"
        assert float(told_at) - cancelled_at < AT_ONCE
        left: list[tuple[object, ...]] = [
            (one.kind, one.data.get("author"), one.data.get("status"), one.data.get("source"))
            for one in records(log)
        ]
        assert runner.run(**KEY, message="And now?").answer(PATIENCE) == "again"
    return left


@pytest.mark.scenario("A1")
def test_a_cancel_leaves_the_same_records_whatever_kind_the_tool_is(tmp_path: Path) -> None:
    first, *others = [left_by_a_cancel(tool, tmp_path / str(kind)) for kind, tool in enumerate(TOOLS)]
    assert [kind for kind, *_ in first[-3:]] == ["call_started", "cancel_requested", "run_ended"]
    for other in others:
        assert other == first


def test_what_parallel_tools_append_to_the_state_is_all_kept_in_call_order() -> None:
    gates = {"a": AsyncGate(), "b": AsyncGate()}
    ended = {"a": threading.Event(), "b": threading.Event()}

    async def note(what: str, tool_context: ToolContext) -> None:
        await gates[what].wait()
        tool_context.state.append("notes", what)
        tool_context.state["last"] = what
        ended[what].set()

    model = ScriptedModel(calls(("note", {"what": "a"}), ("note", {"what": "b"})), "done")
    with Runner(app_with(model, note), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        for what in ("b", "a"):
            gates[what].arrived()
            gates[what].open()
            assert ended[what].wait(PATIENCE)
        run.answer(PATIENCE)
        session = runner.sessions.get(**KEY)

    assert session is not None
    assert session.state == {"notes": ["a", "b"], "last": "b"}


def test_what_an_abandoned_async_call_does_to_the_state_is_dropped() -> None:
    begun, ended = threading.Event(), AsyncGate()

    async def note(tool_context: ToolContext) -> None:
        tool_context.state["before"] = 1
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            tool_context.state["after"] = 1
            await ended.wait()

    model = ScriptedModel(calls(("note", {})), "done")
    with Runner(app_with(model, note), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        (call,) = runner.sessions.events(**KEY)[-1].function_calls
        run.cancel_call(call.id)
        ended.arrived()
        ended.open()
        run.answer(PATIENCE)
        assert run.wait_terminated(PATIENCE)
        session = runner.sessions.get(**KEY)

    assert session is not None
    assert session.state == {}


def test_an_async_tool_may_stop_its_run() -> None:
    async def look(tool_context: ToolContext) -> str:
        tool_context.stop("seen enough")
        return "seen"

    model = ScriptedModel(calls(("look", {})))
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)

    assert result.status is RunStatus.STOPPED
    assert [r.response for event in result.events for r in event.function_responses] == [{"result": "seen"}]


def test_close_ends_a_run_whose_async_tool_waits_for_ever_and_leaves_no_loop() -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with Runner(app_with(ScriptedModel(calls(("wait", {}))), wait), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert begun.wait(PATIENCE)
        runner.close(grace=0, runs="cancel")

    assert run.status is RunStatus.CANCELLED
    assert run.wait_terminated(PATIENCE)
