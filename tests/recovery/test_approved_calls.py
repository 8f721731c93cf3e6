"""Calls that are gone on with: an approval is used once, and so is what a look-up finds."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from apps import APP, KEY, records
from intermission import (
    App,
    Confirmation,
    FunctionCall,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    PendingKind,
    ResumabilityConfig,
    Runner,
    RunStatus,
    ToolContext,
)
from intermission.testing import Gate, ScriptedModel, calls
from intermission_storage import Kind, MemoryEventLog
from left import recovered


def runner_of(log: MemoryEventLog, model: ScriptedModel, *tools: FunctionTool) -> Runner:
    """Return a runner of a resumable app with these tools."""
    agent = LlmAgent("agent", model, tools=tools)
    return Runner(App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True)), log=log)


class Charging:
    """A tool with an effect, which is left in the middle of the calls for the amounts in `stuck`."""

    def __init__(self, *stuck: int) -> None:
        self.stuck = set(stuck)
        self.effects: list[int] = []
        self.confirmed: list[Confirmation | None] = []
        self.gate = Gate()

    def charge(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Charge."""
        self.effects.append(amount)
        self.confirmed.append(tool_context.confirmation)
        if amount in self.stuck:
            self.gate.wait()
        return {"charged": amount}

    def ask_then_charge(self, amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Charge, when somebody has said from which account."""
        if tool_context.confirmation is None:
            tool_context.request_confirmation("From which account?")
            return {}
        return self.charge(amount, tool_context)

    def leave(self, runner: Runner) -> None:
        """Leave what has begun as a process does that dies in it."""
        self.gate.arrived()
        runner.close(grace=0)
        self.gate.open()
        self.stuck.clear()
        self.gate = Gate()


def _found(call: FunctionCall) -> dict[str, Any]:
    return {"found": call.args["amount"]}


UNKNOWN = {
    "status": "unknown",
    "outcome": "unknown",
    "message": "The run ended before this call was answered. It may or may not have had its effect.",
}


@pytest.mark.scenario("C19", "F6")
@pytest.mark.parametrize(
    ("on_resume", "effects", "told"),
    [
        ("rerun", [1, 2, 2], {"charged": 2}),
        ("ask", [1, 2], None),
        ("fail", [1, 2], UNKNOWN),
        (_found, [1, 2], {"found": 2}),
    ],
    ids=["rerun", "ask", "fail", "look-up"],
)
def test_of_calls_that_were_approved_the_finished_ones_stand_and_the_tool_says_what_becomes_of_the_open_one(
    on_resume: str | Callable[[FunctionCall], dict[str, Any]], effects: list[int], told: Any
) -> None:
    log, charging = MemoryEventLog(), Charging(2)
    tool = FunctionTool(charging.charge, require_confirmation=True, on_resume=on_resume)
    model = ScriptedModel(calls(("charge", {"amount": 1}), ("charge", {"amount": 2})), default="done")
    runner = runner_of(log, model, tool)
    pending = runner.run(**KEY, message="go").result(60).pending
    runner.resume(**KEY, answers=[call.approve() for call in pending]).start()
    charging.leave(runner)
    with runner_of(log, model, tool) as runner:
        (result,) = recovered(runner)
        assert charging.effects == effects
        if told is None:
            assert [(call.kind, call.arguments) for call in result.pending] == [
                (PendingKind.RESUME, {"amount": 2})
            ]
        else:
            assert result.status is RunStatus.COMPLETED
            responses = model.requests[-1].contents[-1].function_responses
            assert [dict(one.response) for one in responses] == [{"charged": 1}, told]
    assert None not in charging.confirmed


def test_leave_to_make_a_call_again_is_used_once_and_is_not_what_the_tool_itself_has_asked() -> None:
    log, charging = MemoryEventLog(), Charging(1)
    tool = FunctionTool(charging.ask_then_charge, name="charge", on_resume="ask")
    model = ScriptedModel(calls(("charge", {"amount": 1})), default="done")
    runner = runner_of(log, model, tool)
    (question,) = runner.run(**KEY, message="go").result(60).pending
    runner.resume(**KEY, answers=[question.approve(payload="savings")]).start()
    charging.leave(runner)
    charging.stuck = {1}
    runner = runner_of(log, model, tool)
    (question,) = recovered(runner)[0].pending
    runner.resume(**KEY, answers=[question.approve()]).start()
    charging.leave(runner)
    with runner_of(log, model, tool) as runner:
        (question,) = recovered(runner)[0].pending
        assert question.kind is PendingKind.RESUME
        assert charging.effects == [1, 1]
        assert runner.resume(**KEY, answers=[question.approve()]).answer(60) == "done"
    assert charging.effects == [1, 1, 1]
    assert [one.payload if one else None for one in charging.confirmed] == ["savings"] * 3


def test_leave_to_make_a_call_again_answers_no_question_that_the_tool_has_not_asked_yet() -> None:
    log, charging, gate = MemoryEventLog(), Charging(), Gate()
    held = threading.Event()

    def charge(amount: int, tool_context: ToolContext) -> dict[str, int]:
        if not held.is_set():
            held.set()
            gate.wait()
        return charging.ask_then_charge(amount, tool_context)

    tool = FunctionTool(charge, on_resume="ask")
    model = ScriptedModel(calls(("charge", {"amount": 1})), default="done")
    runner = runner_of(log, model, tool)
    runner.run(**KEY, message="go").start()
    gate.arrived()
    runner.close(grace=0)
    gate.open()
    with runner_of(log, model, tool) as runner:
        (again,) = recovered(runner)[0].pending
        (question,) = runner.resume(**KEY, answers=[again.approve()]).result(60).pending
        assert (again.kind, question.kind) == (PendingKind.RESUME, PendingKind.CONFIRMATION)
        assert charging.effects == []
        assert runner.resume(**KEY, answers=[question.approve(payload="savings")]).answer(60) == "done"
    assert [one.payload for one in charging.confirmed if one] == ["savings"]


def test_a_long_running_call_that_was_approved_is_begun_once_while_others_of_its_turn_are_answered() -> None:
    begun: list[str] = []

    def order(tool_context: ToolContext) -> None:
        """Order it."""
        begun.append(tool_context.function_call_id)

    charging = Charging()
    tools = [
        LongRunningFunctionTool(order, require_confirmation=True),
        FunctionTool(charging.charge, require_confirmation=True),
    ]
    model = ScriptedModel(calls(("order", {}), ("charge", {"amount": 1})), default="done")
    with runner_of(MemoryEventLog(), model, *tools) as runner:
        first, second = runner.run(**KEY, message="go").result(60).pending
        assert runner.resume(**KEY, answers=[first.approve()]).result(60).status is RunStatus.PAUSED
        (waits,) = runner.resume(**KEY, answers=[second.approve()]).result(60).pending
        assert waits.kind is PendingKind.LONG_RUNNING
        assert runner.resume(**KEY, answers=[waits.reply({"ordered": 1})]).answer(60) == "done"
    assert begun == [waits.function_call_id]
    assert charging.effects == [1]


def _down(call: FunctionCall) -> None:
    raise OSError("the service is down")


def _rubbish(call: FunctionCall) -> Any:
    return "charged"


def _unstorable(call: FunctionCall) -> dict[str, Any]:
    return {"receipt": object()}


@pytest.mark.scenario("F6")
@pytest.mark.parametrize("look_up", [_down, _rubbish, _unstorable])
def test_a_look_up_that_fails_leaves_the_outcome_unknown_and_the_run_goes_on(
    look_up: Callable[[FunctionCall], Any], caplog: pytest.LogCaptureFixture
) -> None:
    log, charging = MemoryEventLog(), Charging(1)
    tool = FunctionTool(charging.charge, on_resume=look_up)
    model = ScriptedModel(calls(("charge", {"amount": 1})), default="done")
    runner = runner_of(log, model, tool)
    runner.run(**KEY, message="go").start()
    charging.leave(runner)
    with runner_of(log, model, tool) as runner:
        assert recovered(runner)[0].status is RunStatus.COMPLETED
    assert charging.effects == [1]
    (told,) = model.requests[-1].contents[-1].function_responses
    assert told.response["outcome"] == "unknown"
    assert [kept.data["outcome"] for kept in records(log) if kept.kind == Kind.CALL_FINISHED] == ["unknown"]
    (line,) = (line for line in caplog.records if line.levelname == "ERROR")
    assert "charge" in line.message
    assert line.exc_info is not None


def test_a_look_up_has_arguments_of_its_own_and_is_no_async_function() -> None:
    def look_up(call: FunctionCall) -> None:
        args: Any = call.args
        args["amount"] = 99

    log, charging = MemoryEventLog(), Charging(1)
    tool = FunctionTool(charging.charge, on_resume=look_up)
    model = ScriptedModel(calls(("charge", {"amount": 1})), default="done")
    runner = runner_of(log, model, tool)
    runner.run(**KEY, message="go").start()
    charging.leave(runner)
    with runner_of(log, model, tool) as runner:
        assert recovered(runner)[0].status is RunStatus.COMPLETED
    assert charging.effects == [1, 1]

    async def wait(call: FunctionCall) -> None:
        """Look it up."""

    with pytest.raises(TypeError, match="plain function"):
        FunctionTool(charging.charge, on_resume=wait)  # type: ignore[arg-type]  # what a checker refuses
