"""Deleting sessions: what ends, what is refused, and that the id is free afterwards."""

import threading
from typing import Any

import pytest

from apps import KEY, app_with, kinds
from intermission import (
    CancelSource,
    ReentrantRunError,
    Runner,
    RunStatus,
    SessionClosedError,
)
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import EventLog, MemoryEventLog


def runner_with(*replies: Any, log: EventLog) -> Runner:
    return Runner(app_with(ScriptedModel(*replies, default="ok")), log=log)


@pytest.mark.scenario("D10")
def test_deleting_a_session_ends_its_run_and_answers_all_who_wait_and_frees_the_id() -> None:
    gate, log = Gate(), FaultyLog()
    deleted: list[bool] = []
    with runner_with(text(gate, "Hello"), log=log) as runner:
        run = runner.run(**KEY, message="1").start()
        gate.arrived()
        queued = [runner.run(**KEY, message=str(number)).start() for number in range(5)]
        end = log.hold("run_ended")
        deleter = threading.Thread(target=lambda: deleted.append(runner.sessions.delete(**KEY)))
        deleter.start()
        end.arrived()
        for waiting in queued:
            assert isinstance(waiting.result(1).error, SessionClosedError)
        with pytest.raises(SessionClosedError):
            runner.run(**KEY, message="6").start()
        with pytest.raises(SessionClosedError):
            runner.sessions.set_state(**KEY, delta={"a": 1})
        with pytest.raises(SessionClosedError):
            runner.sessions.delete(**KEY)
        end.open()
        deleter.join(30)
        gate.open()
        assert deleted == [True]
        assert (run.result().status, run.result().reason) == (RunStatus.CANCELLED, "the session was deleted")
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.ADMIN
        assert not runner.sessions.exists(**KEY)
        assert runner.sessions.list() == []
        assert runner.sessions.create(**KEY).last_seq == 1
        assert runner.run(**KEY, message="new").answer(30) == "ok"
        assert len(runner.sessions.events(**KEY)) == 2


def test_a_run_that_another_process_has_goes_with_its_session_on_demand() -> None:
    gate, log = Gate(), MemoryEventLog()
    with (
        runner_with(text(gate, "Hello"), log=log) as runner,
        runner_with(log=MemoryEventLog(share=log)) as other,
    ):
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert other.sessions.delete(**KEY, take_over=True)
        gate.open()
        assert run.result(30).status is RunStatus.FAILED
        assert not runner.sessions.exists(**KEY)


def test_a_closed_runner_changes_no_session() -> None:
    log = MemoryEventLog()
    with runner_with(log=log) as runner:
        runner.sessions.create(**KEY)
    with pytest.raises(SessionClosedError):
        runner.sessions.set_state(**KEY, delta={"a": 1})
    with pytest.raises(SessionClosedError):
        runner.sessions.delete(**KEY)
    assert kinds(log) == ["session_created"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_tool_that_deletes_its_own_session_is_refused(kind: str) -> None:
    refused: list[Exception] = []

    def delete() -> str:
        try:
            runner.sessions.delete(**KEY)
        except ReentrantRunError as refusal:
            refused.append(refusal)
        return "ok"

    async def adelete() -> str:
        try:
            await runner.sessions.adelete(**KEY)
        except ReentrantRunError as refusal:
            refused.append(refusal)
        return "ok"

    model = ScriptedModel(calls(("delete" if kind == "plain" else "adelete", {})), "done")
    with Runner(app_with(model, delete, adelete), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(30) == "done"
        assert runner.sessions.exists(**KEY)
    assert len(refused) == 1
