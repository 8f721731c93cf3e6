"""What async tools leave in the log and in the state, and what ends their runs."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import process_tools
from apps import KEY, app_with, records
from async_gates import AsyncGate
from intermission import FunctionTool, Runner, RunStatus, ToolContext
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import EventLog, MemoryEventLog
from pids import written
from turns import assert_legal

PATIENCE = 30.0
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


@pytest.mark.scenario("A1")
def test_a_cancel_leaves_the_same_records_whatever_kind_the_tool_is(tmp_path: Path) -> None:
    gate, begun, path = Gate(), threading.Event(), tmp_path / "pid"

    def in_thread(tool_context: ToolContext) -> None:
        gate.wait()
        tool_context.cancellation.sleep(3600)

    async def on_loop(tool_context: ToolContext) -> None:
        begun.set()
        await tool_context.cancellation.asleep(3600)

    found = list[list[str]]()
    for tool, args in (
        (FunctionTool(in_thread), {}),
        (FunctionTool(on_loop), {}),
        (FunctionTool(process_tools.scoped, isolation="process"), {"path": str(path)}),
    ):
        log, model = MemoryEventLog(), ScriptedModel(calls((tool.name, args)), "again")
        with Runner(app_with(model, tool), log=log) as runner:
            run = runner.run(**KEY, message="hi").start()
            if tool.name == "in_thread":
                gate.arrived()
                gate.open()
            elif tool.name == "on_loop":
                assert begun.wait(PATIENCE)
            else:
                written(path)
            run.cancel()
            assert run.wait_terminated(PATIENCE)
            found.append([record.kind for record in records(log)])
            assert runner.run(**KEY, message="hi").answer(PATIENCE) == "again"
            assert_legal(model.requests[-1])

    assert found[0] == found[1] == found[2]


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
