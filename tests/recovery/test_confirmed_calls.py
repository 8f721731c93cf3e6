"""A call that somebody has given leave for is a call like any other when its process dies."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from apps import APP, KEY
from intermission import (
    App,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    PendingKind,
    ResumabilityConfig,
    Runner,
    RunStatus,
    ToolContext,
)
from intermission.testing import FaultyLog, ScriptedModel, calls
from intermission_storage import Kind, MemoryEventLog, Record
from left import recovered

PATIENCE = 30.0


class Bank:
    """A log, and two payments that need leave."""

    def __init__(self, on_resume: str = "rerun", *, in_days: bool = False) -> None:
        self.log = MemoryEventLog()
        self.paid: list[tuple[int, Any]] = []
        self._in_days = in_days
        kind = LongRunningFunctionTool if in_days else FunctionTool
        self._tool = kind(self.pay, require_confirmation=True, on_resume=on_resume)

    def pay(self, number: int, tool_context: ToolContext) -> dict[str, int] | None:
        """Pay."""
        assert tool_context.confirmation is not None
        self.paid.append((number, tool_context.confirmation.payload))
        return None if self._in_days else {"paid": number}

    def app(self) -> App:
        """The app, as each process makes it."""
        model = ScriptedModel(*self._replies(), default="done")
        agent = LlmAgent("clerk", model, tools=[self._tool])
        return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))

    def _replies(self) -> list[Any]:
        return [] if self.log.streams() else [calls(("pay", {"number": 1}), ("pay", {"number": 2}))]

    def pause(self) -> None:
        """Ask for leave."""
        with Runner(self.app(), log=self.log) as runner:
            assert runner.run(**KEY, message="Pay both.").result(PATIENCE).status is RunStatus.PAUSED

    def approve_and_die(self, where: Callable[[str, Sequence[Record]], bool], *, stored: bool) -> None:
        """Give leave to both, in a process that dies at a commit."""
        log = FaultyLog(MemoryEventLog(share=self.log))
        runner = Runner(self.app(), log=log)
        log.stop_at(where, stored=stored)
        answers = [call.approve(payload=f"from {call.arguments['number']}") for call in runner.pending(**KEY)]
        runner.resume(**KEY, answers=answers).begin()
        log.wait_until_stopped()
        log.close()
        with suppress(Exception):
            runner.close(grace=0)


def ends_a_call(stream: str, records: Sequence[Record]) -> bool:
    """Whether a commit holds the end of a call."""
    return any(record.kind == Kind.CALL_FINISHED for record in records)


def test_a_call_with_leave_whose_end_is_stored_is_not_made_again_beside_one_that_is() -> None:
    bank = Bank()
    bank.pause()
    bank.approve_and_die(ends_a_call, stored=True)
    with Runner(bank.app(), log=bank.log) as runner:
        (result,) = recovered(runner)
    assert result.status is RunStatus.COMPLETED
    assert bank.paid == [(1, "from 1"), (2, "from 2")]


@pytest.mark.parametrize("on_resume", ["rerun", "ask", "fail"])
def test_whether_a_call_with_leave_is_made_again_is_for_its_tool_to_say(on_resume: str) -> None:
    bank = Bank(on_resume)
    bank.pause()
    bank.approve_and_die(ends_a_call, stored=False)
    assert bank.paid == [(1, "from 1")]
    with Runner(bank.app(), log=bank.log) as runner:
        (result,) = recovered(runner)
        if on_resume == "ask":
            (call,) = result.pending
            assert (call.kind, call.arguments) == (PendingKind.RESUME, {"number": 1})
            assert [number for number, _ in bank.paid] == [1, 2]
            result = runner.resume(**KEY, answers=[call.approve()]).result(PATIENCE)
        assert result.status is RunStatus.COMPLETED
        said = [event for event in result.events if event.author == "clerk"]
        responses = [one for event in said for one in event.function_responses]
    again = {"rerun": [1, 1, 2], "ask": [1, 2, 1], "fail": [1, 2]}[on_resume]
    assert bank.paid == [(number, f"from {number}") for number in again]
    assert [one.response.get("outcome", "made") for one in responses] == [
        "unknown" if on_resume == "fail" else "made",
        "made",
    ]


def test_a_call_that_was_begun_again_on_demand_is_asked_about_again_when_its_process_dies_again() -> None:
    bank = Bank("ask")
    bank.pause()
    for paid in ([1], [1, 2, 1]):
        bank.approve_and_die(ends_a_call, stored=False)
        assert [number for number, _ in bank.paid] == paid
        with Runner(bank.app(), log=bank.log) as runner:
            (result,) = recovered(runner)
            assert [(call.kind, call.arguments) for call in result.pending] == [
                (PendingKind.RESUME, {"number": 1})
            ]
    with Runner(bank.app(), log=bank.log) as runner:
        answers = [call.approve() for call in runner.pending(**KEY)]
        assert runner.resume(**KEY, answers=answers).result(PATIENCE).status is RunStatus.COMPLETED
    assert bank.paid == [(number, f"from {number}") for number in (1, 2, 1, 1)]


def test_a_call_with_leave_that_others_have_to_end_is_begun_once() -> None:
    bank = Bank(in_days=True)
    bank.pause()
    with Runner(bank.app(), log=bank.log) as runner:
        first, second = runner.pending(**KEY)
        for call in (first, second):
            runner.resume(**KEY, answers=[call.approve()]).result(PATIENCE)
        first, second = runner.pending(**KEY)
        assert {first.kind, second.kind} == {PendingKind.LONG_RUNNING}
        assert runner.resume(**KEY, answers=[first.reply({"ok": 1})]).result().status is RunStatus.PAUSED
        assert runner.resume(**KEY, answers=[second.reply({"ok": 1})]).result().status is RunStatus.COMPLETED
    assert [number for number, _ in bank.paid] == [1, 2]


def test_a_run_that_is_gone_on_with_makes_no_call_that_another_run_of_its_session_has_leave_for() -> None:
    bank = Bank()
    bank.pause()
    # The other one is left before its agent has said anything, and with it any checkpoint.
    log = FaultyLog(MemoryEventLog(share=bank.log))
    runner = Runner(bank.app(), log=log)
    log.stop_at(lambda _, records: any(one.data.get("author") == "clerk" for one in records), stored=False)
    other = runner.run(**KEY, message="What time is it?").start().invocation_id
    log.wait_until_stopped()
    log.close()
    with suppress(Exception):
        runner.close(grace=0)
    # Now the session's last word is the leave, and nothing that it is for has begun.
    bank.approve_and_die(lambda _, records: begins_a_call(records), stored=False)
    with Runner(bank.app(), log=bank.log) as runner:
        result = runner.resume(**KEY, invocation_id=other).result(PATIENCE)

    assert (result.status, result.text, bank.paid) == (RunStatus.COMPLETED, "done", [])


def begins_a_call(records: Sequence[Record]) -> bool:
    """Whether a commit holds the beginning of a call."""
    return any(record.kind == Kind.CALL_STARTED for record in records)
