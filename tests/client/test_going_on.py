from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callers import Caller, covered
from intermission import (
    Answer,
    CancelScope,
    FunctionTool,
    InvalidAnswerError,
    LongRunningFunctionTool,
    ModelError,
    NothingToResumeError,
    RunConfig,
    RunStatus,
    SessionNotFoundError,
    UnknownCallError,
)
from intermission.client import AgentClient, CancelledError, LlmResult, TurnResult, ValidationError
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog

PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


def pay(euros: int) -> dict[str, int]:
    """Pay."""
    PAID.append(euros)
    return {"paid": euros}


def ask(question: str) -> None:
    """Ask somebody."""


TOOLS: list[Any] = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(ask)]
THREE = calls(("pay", {"euros": 1}), ("pay", {"euros": 2}), ("ask", {"question": "Why?"}))


def paused(client: AgentClient) -> TurnResult:
    turn = client.run("Pay!", session_id="s").get()
    assert turn.status is RunStatus.PAUSED
    return turn


def test_a_pause_is_a_success_and_answering_some_of_its_calls_leaves_the_others_as_they_were() -> None:
    with AgentClient(ScriptedModel(THREE, "Done."), tools=TOOLS) as client:
        question, one, two = paused(client).pending
        assert [call.tool for call in (question, one, two)] == ["ask", "pay", "pay"]
        again = client.resume("s", [two.approve()]).get()
        assert again.status is RunStatus.PAUSED
        assert [call.id for call in again.pending] == [question.id, one.id]
        assert PAID == [2]
        done = client.resume("s", [one.reject("too little"), question.reply({"answer": "So."})]).get()
        assert (done.status, done.text, done.session_id, done.pending) == ("completed", "Done.", "s", ())
        assert PAID == [2]


def test_of_two_answers_to_one_call_the_last_counts() -> None:
    with AgentClient(ScriptedModel(calls(("pay", {"euros": 3})), "No."), tools=TOOLS) as client:
        (call,) = paused(client).pending
        assert client.resume("s", [call.approve(), call.reject()]).get().text == "No."
        assert PAID == []


REFUSED: dict[str, tuple[Callable[[str], Any], type[Exception]]] = {
    "an unknown id": (lambda _: {"nobody": {"confirmed": True}}, UnknownCallError),
    "neither yes nor no": (lambda call: {call: {"perhaps": 1}}, InvalidAnswerError),
    "what cannot be stored": (
        lambda call: [Answer(call, {"confirmed": True, "payload": object()})],
        ValidationError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_that_cannot_be_taken_is_refused_and_the_real_one_still_works(name: str) -> None:
    answers, kind = REFUSED[name]
    with AgentClient(ScriptedModel(calls(("pay", {"euros": 3})), "Paid."), tools=TOOLS) as client:
        (call,) = paused(client).pending
        assert isinstance(client.resume("s", answers(call.id)).error, kind)
        assert client.recover("s").get().pending[0].id == call.id  # a pause is as it was
        assert client.resume("s", {call.id: {"confirmed": True}}).get().text == "Paid."
        assert PAID == [3]


def test_an_answer_that_comes_twice_and_one_in_no_session_do_nothing() -> None:
    model = ScriptedModel(calls(("pay", {"euros": 3})), "Paid.")
    with AgentClient(model, tools=TOOLS) as client:
        (call,) = paused(client).pending
        assert client.resume("s", [call.approve()]).get().text == "Paid."
        again = client.resume("s", [call.approve()]).get()
        assert (again.status, again.text, PAID) == ("completed", "", [3])
        assert isinstance(client.resume("other", [call.approve()]).error, SessionNotFoundError)
    assert len(model.requests) == 2


def test_a_turn_that_fails_after_an_approval_goes_on_and_does_not_pay_again() -> None:
    model = ScriptedModel(calls(("pay", {"euros": 3})), error("service"), "Paid.")
    with AgentClient(model, tools=TOOLS) as client:
        (call,) = paused(client).pending
        assert isinstance(client.resume("s", [call.approve()]).error, ModelError)
        assert client.recover("s").get().text == "Paid."
        assert PAID == [3]
        assert isinstance(client.recover("s").error, NothingToResumeError)
        assert isinstance(client.recover("other").error, SessionNotFoundError)


def fail_once(client: AgentClient, gate: Gate, how: str) -> LlmResult[TurnResult]:
    if how != "cancelled":
        return client.run("Hello.", session_id="s")
    scope = CancelScope()
    caller = Caller(partial(covered, scope, lambda: client.run("Hello.", session_id="s")))
    gate.arrived()
    scope.cancel()
    return caller.result()


@pytest.mark.parametrize("how", ["failed", "expired", "cancelled"])
def test_a_turn_goes_on_whatever_has_ended_it(how: str) -> None:
    gate, log = Gate(), MemoryEventLog()
    first = error("service") if how == "failed" else text(gate, "too late")
    config = RunConfig(timeout=0.05 if how == "expired" else None)
    client = AgentClient(ScriptedModel(first), log=log, config=config, on_caller_cancel="cancel")
    with client:
        assert fail_once(client, gate, how).is_failure
        assert client.session("s").get().runs()[-1].status == how
        gate.open()
    with AgentClient(ScriptedModel("Here I am."), log=log) as other:
        assert other.recover("s").get().text == "Here I am."
        assert [run.status for run in other.session("s").get().runs()] == [RunStatus.COMPLETED]


def test_a_turn_that_a_later_one_has_followed_is_left_alone() -> None:
    with AgentClient(ScriptedModel(error("service"), "Hello again.")) as client:
        assert client.run("Hello.", session_id="s").is_failure
        assert client.run("Hello?", session_id="s").get().text == "Hello again."
        assert isinstance(client.recover("s").error, NothingToResumeError)


def test_a_turn_that_is_under_way_is_joined() -> None:
    gate = Gate()
    model = ScriptedModel(text(gate, "One answer."))
    with AgentClient(model) as client:
        scope = CancelScope()
        first = Caller(partial(covered, scope, lambda: client.run("Hello.", session_id="s")))
        gate.arrived()
        scope.cancel("no time")
        left = first.result()
        assert isinstance(left.error, CancelledError)
        assert (left.error.session_id, left.error.reason) == ("s", "no time")
        second = Caller(lambda: client.recover("s"))
        gate.open()
        assert second.result().get().text == "One answer."
    assert len(model.requests) == 1


def test_a_caller_who_is_cancelled_already_changes_nothing_of_a_pause() -> None:
    with AgentClient(ScriptedModel(calls(("pay", {"euros": 3})), "Paid."), tools=TOOLS) as client:
        (call,) = paused(client).pending
        with CancelScope() as scope:
            scope.cancel("no time")
            for result in (client.resume("s", [call.approve()]), client.recover("s")):
                assert isinstance(result.error, CancelledError)
        assert client.session("s").get().pending() == [call]
        assert client.resume("s", [call.approve()]).get().text == "Paid."


def test_a_message_to_a_paused_session_is_answered_and_the_pause_is_as_it_was() -> None:
    model = ScriptedModel(calls(("pay", {"euros": 3})), "It waits.", "Paid.")
    with AgentClient(model, tools=TOOLS) as client:
        (call,) = paused(client).pending
        assert client.run("What of it?", session_id="s").get().text == "It waits."
        assert client.session("s").get().pending() == [call]
        assert client.resume("s", [call.approve()]).get().text == "Paid."
        assert PAID == [3]


def test_a_pause_is_answered_by_another_client_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with AgentClient(ScriptedModel(calls(("pay", {"euros": 3}))), tools=TOOLS, log=log) as client:
        (call,) = paused(client).pending
    with AgentClient(ScriptedModel("Paid."), tools=TOOLS, log=log) as other:
        assert other.resume("s", [call.approve(answered_by="ada")]).get().text == "Paid."
        assert PAID == [3]
