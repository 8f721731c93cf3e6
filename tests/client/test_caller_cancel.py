"""What becomes of a turn when the scope of who waits for it is cancelled."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from callers import Caller, Telling, behind, covered, until
from children import PATIENCE
from intermission import CancelScope, Event, LongRunningFunctionTool, NothingToResumeError, RunStatus
from intermission.client import AgentClient, CancelledError, LlmClient, LlmResult, TurnResult, turns
from intermission.models import ChatCompletions
from intermission.testing import (
    FaultyLog,
    Gate,
    ManualClock,
    ModelServer,
    ScriptedModel,
    calls,
    error,
    silent,
    text,
)
from tree import ROOT, environment, run

S: dict[str, Any] = {"session_id": "s"}


def ask() -> None:
    """Ask somebody."""


TOOLS = [LongRunningFunctionTool(ask)]


def resume(client: AgentClient) -> LlmResult[TurnResult]:
    with CancelScope(shield=True):
        (call,) = client.session("s").get().pending()
    return client.resume("s", [call.reply({})])


# How a turn comes to its last model call, and the call of a client that waits there.
VERBS: dict[str, tuple[list[Any], Callable[[AgentClient], LlmResult[TurnResult]]]] = {
    "run": ([], lambda client: client.run("hello", **S)),
    "continue_conversation": (
        ["hi"],
        lambda client: client.continue_conversation(TurnResult(status=RunStatus.COMPLETED, **S), "hello"),
    ),
    "resume": ([calls(("ask", {}))], resume),
    "recover": ([error("service")], lambda client: client.recover("s")),
}


def begun(
    verb: str, gate: Gate, **options: Any
) -> tuple[AgentClient, ScriptedModel, Caller[Any], CancelScope]:
    """A client one of whose callers waits for its model, which stands at the gate, in a scope."""
    before, call = VERBS[verb]
    model = ScriptedModel(*before, text(gate, "late"), "And now?")
    client = AgentClient(model, tools=TOOLS, **options)
    if before:
        client.run("hello", **S)
    scope = CancelScope()
    caller = Caller(partial(covered, scope, partial(call, client)))
    gate.arrived()
    return client, model, caller, scope


@pytest.mark.parametrize("verb", VERBS)
def test_a_cancelled_wait_leaves_its_turn_going_and_the_turn_can_be_read_later(verb: str) -> None:
    gate = Gate()
    client, model, caller, scope = begun(verb, gate)
    with client:
        scope.cancel("no time")
        result = caller.result()
        assert isinstance(result.error, CancelledError)
        assert (result.error.reason, result.error.session_id, scope.cancelled) == ("no time", "s", True)
        asked = len(model.requests)
        session = client.session("s").get()
        assert session.runs()[-1].status is None
        gate.open()
        until(lambda: session.runs()[-1].status is RunStatus.COMPLETED)
        assert [event.text for event in session.events() if event.text][-1] == "late"
        assert len(model.requests) == asked  # the model was asked once, and not disturbed


@pytest.mark.parametrize("verb", VERBS)
def test_with_the_other_policy_the_turn_is_cancelled_and_can_be_gone_on_with_at_once(verb: str) -> None:
    gate = Gate()
    client, _, caller, scope = begun(verb, gate, on_caller_cancel="cancel")
    with client:
        scope.cancel("no time")
        result = caller.result()
        session = client.session("s").get()
        turn = session.runs()[-1]
        assert (turn.status, turn.reason, turn.source) == ("cancelled", "no time", "caller")
        assert isinstance(result.error, CancelledError)
        assert (result.error.reason, result.error.source, scope.cancelled) == ("no time", "caller", True)
        gate.open()
        assert client.recover("s").get().text == "And now?"


def test_a_signal_handler_that_cancels_the_scope_ends_the_turn_that_the_main_thread_waits_for(
    server: ModelServer, model: ChatCompletions
) -> None:
    server.enqueue(silent("answer"))

    def interrupt() -> None:
        server.wait_held()
        os.kill(os.getpid(), signal.SIGINT)

    with AgentClient(model, on_caller_cancel="cancel") as client, CancelScope() as scope:

        def handle(number: int, frame: FrameType | None) -> None:
            scope.cancel("the signal")

        before = signal.signal(signal.SIGINT, handle)
        try:
            sender = Caller(interrupt)
            result = client.run("hello")
            sender.result()
        finally:
            signal.signal(signal.SIGINT, before)
        assert isinstance(result.error, CancelledError)
        assert result.error.reason == "the signal"
        server.wait_aborted()
    assert server.aborted == 1  # the model was told once


def test_a_call_that_a_tool_makes_with_a_client_ends_with_the_tools_run(
    server: ModelServer, client: LlmClient
) -> None:
    server.enqueue(silent("answer"))
    came: list[LlmResult[Any]] = []

    def look_up() -> str:
        """Look something up."""
        came.append(client.complete("hello"))
        return "nothing"

    with AgentClient(ScriptedModel(calls(("look_up", {}))), tools=[look_up]) as agent:
        stream = agent.stream("s", "hello", Deaf()).get()
        server.wait_held()
        stream.cancel("enough")
        server.wait_aborted()
        until(lambda: bool(came))
    assert isinstance(came[0].error, CancelledError)
    assert came[0].error.reason == "enough"


class Deaf:
    def on_event(self, event: Event) -> None:
        """Hear nothing."""


def test_a_deadline_of_the_callers_own_ends_the_wait_and_not_the_turn(clock: ManualClock) -> None:
    gate = Gate()
    with AgentClient(Telling(behind(gate))) as client:
        scope = CancelScope(timeout=60)
        caller = Caller(partial(covered, scope, lambda: client.run("hello", **S)))
        gate.arrived()
        clock.advance(60)
        result = caller.result()
        assert isinstance(result.error, CancelledError)
        assert result.error.source == "deadline"
        gate.open()


def test_of_a_cancel_that_comes_too_late_the_outcome_is_returned_and_the_scope_stays_cancelled() -> None:
    log = FaultyLog()
    with AgentClient(ScriptedModel("late", "next"), log=log, on_caller_cancel="cancel") as client:
        commit = log.hold("run_ended")
        scope = CancelScope()
        caller = Caller(partial(covered, scope, lambda: client.run("hello", **S)))
        commit.arrived()
        scope.cancel()
        commit.open()
        assert caller.result().get().text == "late"
        assert scope.cancelled
        assert isinstance(client.recover("s").error, NothingToResumeError)
        assert client.run("hello", **S).get().text == "next"
    log.close()


def test_a_turn_that_does_not_end_holds_its_caller_no_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns, "_PATIENCE", 0.01)
    gate, log = Gate(), FaultyLog()
    with AgentClient(Telling(behind(gate)), log=log, on_caller_cancel="cancel") as client:
        commit = log.hold("run_ended")
        scope = CancelScope()
        caller = Caller(partial(covered, scope, lambda: client.run("hello", **S)))
        gate.arrived()
        scope.cancel("no time")
        result = caller.result()
        assert isinstance(result.error, CancelledError)
        assert "has not ended yet" in str(result.error)
        (record,) = [each for each in caplog.records if each.name == "intermission.client.turns"]
        assert (record.levelname, vars(record)["session"]) == ("WARNING", "s")
        commit.open()
        gate.open()
    log.close()


PROGRAM = """
import os, signal, threading
from blocked import wait_until_blocked
from intermission.client import AgentClient
from intermission.testing import Gate, ScriptedModel, text

gate, main = Gate(), threading.main_thread()
client = AgentClient(ScriptedModel(text(gate, "late")), on_caller_cancel="{policy}")

def interrupt():
    gate.arrived()
    wait_until_blocked(main, looks=50)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    client.run("hello", session_id="s")
except KeyboardInterrupt:
    print("interrupted", flush=True)
(turn,) = client.session("s").get().runs()
print(turn.status, turn.source, flush=True)
if "{policy}" == "detach":
    joined = threading.Thread(target=lambda: print(client.recover("s").get().text, flush=True))
    joined.start()
    wait_until_blocked(joined)
    gate.open()
    joined.join()
gate.open()
client.close()
print([thread.name for thread in threading.enumerate() if not thread.daemon], flush=True)
"""


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("detach", ["interrupted", "None None", "late", "['MainThread']"]),
        ("cancel", ["interrupted", "cancelled caller", "['MainThread']"]),
    ],
)
def test_ctrl_c_in_the_wait_is_raised_there_and_the_turn_goes_on_or_is_cancelled(
    policy: str, said: list[str]
) -> None:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT / "tests/support")
    finished = run(sys.executable, "-c", PROGRAM.format(policy=policy), env=env, timeout=2 * PATIENCE)
    assert finished.output.splitlines() == said
