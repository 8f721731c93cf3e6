import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from callers import PATIENCE, Caller, Telling, behind, covered, together, until
from intermission import (
    CancelScope,
    Content,
    LlmAgent,
    LlmCallsLimitExceededError,
    ModelError,
    ModelErrorKind,
    ReentrantRunError,
    RunConfig,
    RunResult,
    RunStatus,
    RunTimeoutError,
    SessionBusyError,
    ToolContext,
)
from intermission.client import (
    AgentClient,
    AgentStream,
    CancelledError,
    ClientClosedError,
    LlmResult,
    TurnResult,
    ValidationError,
)
from intermission.kernel.actor import ActorCrashError
from intermission.models import ChatCompletions
from intermission.sessions.records import SESSIONS
from intermission.testing import Gate, ModelServer, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog


def kept(log: MemoryEventLog) -> list[str]:
    """The sessions in a log."""
    return [entry.key[2] for entry in log.index(SESSIONS, ())]


def session_threads(session_id: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == f"intermission-run-{session_id}"]


def test_a_turn_works_on_threads_of_the_runtime_that_a_dump_shows_by_its_session() -> None:
    gate = Gate()
    model = Telling(behind(gate))
    with AgentClient(model) as client:
        caller = Caller(lambda: client.run("hello", session_id="s1"))
        gate.arrived()
        (thread,) = model.threads
        assert session_threads("s1") == [thread]
        assert thread.daemon
        assert thread not in {caller.thread, threading.current_thread()}
        gate.open()
        assert caller.result().get().text == "late"
        assert session_threads("s1") == []
        assert thread.name.startswith("intermission-worker-")


def test_thirty_two_callers_share_a_client_and_each_has_its_own_answer_and_session() -> None:
    all_here = threading.Barrier(32)

    def echo(asked: str) -> str:
        all_here.wait(PATIENCE)
        return f"echo of {asked}"

    with AgentClient(Telling(echo)) as client:
        callers = together(32, lambda number: client.run(f"query {number}"))
        turns = [caller.result().get() for caller in callers]
    assert [turn.text for turn in turns] == [f"echo of query {number}" for number in range(32)]
    assert len({turn.session_id for turn in turns}) == 32


def test_a_conversation_goes_on_where_it_was() -> None:
    model = ScriptedModel("Hello, Ada.", "Ada.", "Bye.")
    with AgentClient(model, instruction="Be brief.") as client:
        first = client.run("I am Ada.")
        second = client.continue_conversation(first, "Who am I?").get()
        third = client.continue_conversation(second, "Good bye.").get()
        assert [turn.text for turn in (second, third)] == ["Ada.", "Bye."]
        assert first.get().session_id == second.session_id == third.session_id
        events = client.session(third.session_id).get().events()
    assert model.requests[0].instruction == "Be brief."
    assert [content.text for content in model.requests[2].contents] == [
        *("I am Ada.", "Hello, Ada.", "Who am I?", "Ada.", "Good bye.")
    ]
    assert [event.text for event in events if event.text][-1] == "Bye."
    assert isinstance(third, RunResult)
    assert (third.status, third.usage.complete) == (RunStatus.COMPLETED, True)


def stop(tool_context: ToolContext) -> str:
    """Stop."""
    tool_context.stop("enough")
    return "ok"


def leave() -> None:
    """Leave."""
    raise SystemExit


def test_a_turn_that_was_stopped_is_a_success() -> None:
    with AgentClient(ScriptedModel(calls(("stop", {}))), tools=[stop]) as client:
        assert client.run("hello").get().status is RunStatus.STOPPED


def own_cancel(_: str) -> str:
    raise asyncio.CancelledError


FAILURES: dict[str, tuple[Any, type[Exception], ModelErrorKind]] = {
    "an error of the model": (
        ScriptedModel(error("authentication")),
        ModelError,
        ModelErrorKind.AUTHENTICATION,
    ),
    "the limit of model calls": (
        ScriptedModel(default=calls(("nobody", {}))),
        LlmCallsLimitExceededError,
        ModelErrorKind.OTHER,
    ),
    "a cancel of the model's own": (Telling(own_cancel), ModelError, ModelErrorKind.CANCELLED),
    "a tool that would end the program": (
        ScriptedModel(calls(("leave", {}))),
        ActorCrashError,
        ModelErrorKind.OTHER,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_turn_that_failed_is_a_failure_and_the_callers_scope_and_the_session_are_as_they_were(
    name: str,
) -> None:
    model, kind_of_error, kind = FAILURES[name]
    with (
        AgentClient(model, tools=[leave], config=RunConfig(max_llm_calls=2)) as client,
        CancelScope() as scope,
    ):
        result = client.run("hello", session_id="s")
        assert isinstance(result.error, kind_of_error)
        assert result.kind is kind
        assert not scope.cancelled
        assert client.session("s").get().runs()[-1].status is RunStatus.FAILED
        assert client.forget("s").get()


def test_a_turn_beyond_its_time_is_a_failure_that_may_well_succeed_later() -> None:
    gate = Gate()
    with AgentClient(Telling(behind(gate)), config=RunConfig(timeout=0.05)) as client:
        result = client.run("hello")
        gate.open()
    assert isinstance(result.error, RunTimeoutError)
    assert (result.kind, result.recoverable) == (ModelErrorKind.TIMEOUT, True)


class _Silent:
    def on_event(self, event: object) -> None:
        raise AssertionError("the listener was called")


class _Deaf:
    def on_event(self, event: object) -> None:
        pass


class _Awaited(_Silent):
    async def on_complete(self, turn: TurnResult) -> None:
        raise AssertionError("the listener was called")


NOTHING: Any = None
TURN = TurnResult(status=RunStatus.COMPLETED, session_id="s")
WRONG: dict[str, Callable[[AgentClient], LlmResult[Any]]] = {
    "run nothing": lambda client: client.run(NOTHING),
    "run a blank": lambda client: client.run(" "),
    "run what is no part": lambda client: client.run(Content("user", (NOTHING,))),
    "run in no session": lambda client: client.run("hello", session_id=""),
    "continue nothing": lambda client: client.continue_conversation(NOTHING, "hello"),
    "continue with nothing": lambda client: client.continue_conversation(TURN, NOTHING),
    "continue a failure": lambda client: client.continue_conversation(
        LlmResult[TurnResult].failure(ClientClosedError()), "hello"
    ),
    "continue what is no turn": lambda client: client.continue_conversation(
        LlmResult[Any].success(RunResult(status=RunStatus.COMPLETED)), "hello"
    ),
    "resume nothing": lambda client: client.resume(NOTHING, {"call": {"confirmed": True}}),
    "resume with nothing": lambda client: client.resume("s", NOTHING),
    "resume with no answer": lambda client: client.resume("s", []),
    "resume with a text": lambda client: client.resume("s", "yes"),  # type: ignore[arg-type]  # what must not be
    "resume with what is no answer": lambda client: client.resume("s", [NOTHING]),
    "recover nothing": lambda client: client.recover(NOTHING),
    "forget nothing": lambda client: client.forget(NOTHING),
    "look at nothing": lambda client: client.session(NOTHING),
    "stream nothing": lambda client: client.stream("s", NOTHING, _Silent()),
    "stream to no session": lambda client: client.stream(NOTHING, "hello", _Silent()),
    "stream to nobody": lambda client: client.stream("s", "hello", NOTHING),
    "stream to a deaf one": lambda client: client.stream_recover("s", object()),  # type: ignore[arg-type]  # as above
    "stream to one to be awaited": lambda client: client.stream("s", "hello", _Awaited()),
    "stream with no answer": lambda client: client.stream_resume("s", {}, _Silent()),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_argument_that_cannot_be_is_a_failed_result_and_nothing_is_begun(
    wrong: Callable[[AgentClient], LlmResult[Any]],
) -> None:
    log = MemoryEventLog()
    with AgentClient(ScriptedModel(), log=log) as client:
        threads = set(threading.enumerate())
        result = wrong(client)
        assert isinstance(result.error, ValidationError)
        assert result.kind is ModelErrorKind.VALIDATION
        assert set(threading.enumerate()) <= threads
        assert kept(log) == []
    broken = AgentClient(NOTHING)
    assert isinstance(wrong(broken).error, ValidationError)  # looked at first


ALL: dict[str, Callable[[AgentClient], LlmResult[Any]]] = {
    "run": lambda client: client.run("hello"),
    "continue_conversation": lambda client: client.continue_conversation(TURN, "hello"),
    "resume": lambda client: client.resume("s", {"call": {"confirmed": True}}),
    "recover": lambda client: client.recover("s"),
    "stream": lambda client: client.stream("s", "hello", _Silent()),
    "stream_resume": lambda client: client.stream_resume("s", {"call": {}}, _Silent()),
    "stream_recover": lambda client: client.stream_recover("s", _Silent()),
    "forget": lambda client: client.forget("s"),
    "session": lambda client: client.session("s"),
}
BROKEN: dict[str, Callable[[], AgentClient]] = {
    "no model": lambda: AgentClient(NOTHING),
    "the name of no model": lambda: AgentClient("nobody/nothing"),
    "a tool that is none": lambda: AgentClient(ScriptedModel(), tools=[NOTHING]),
    "tools beside an agent": lambda: AgentClient(LlmAgent("agent", ScriptedModel()), tools=[stop]),
    "no such policy": lambda: AgentClient(ScriptedModel(), on_caller_cancel="wait"),
    "what is no log": lambda: AgentClient(ScriptedModel(), log=cast(Any, 7)),
    "what are no settings": lambda: AgentClient(ScriptedModel(), config=cast(Any, {})),
    "a log that cannot be opened": lambda: AgentClient(ScriptedModel(), log="/proc/nothing"),
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_a_client_that_could_not_be_made_is_one_whose_every_call_says_why(
    make: Callable[[], AgentClient],
) -> None:
    with make() as client:
        first, *others = [call(client) for call in ALL.values()]
    assert first.is_failure
    assert {id(result.error) for result in others} == {id(first.error)}


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
def test_in_a_cancelled_scope_no_call_begins_and_a_shield_goes_on(
    call: Callable[[AgentClient], LlmResult[Any]],
) -> None:
    log = MemoryEventLog()
    with AgentClient(ScriptedModel("ok"), log=log) as client, CancelScope() as scope:
        scope.cancel("enough")
        result = call(client)
        assert isinstance(result.error, CancelledError)
        assert (result.error.reason, kept(log)) == ("enough", [])
        with CancelScope(shield=True):
            assert client.run("hello").get().text == "ok"


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
def test_a_closed_client_refuses_every_call(call: Callable[[AgentClient], LlmResult[Any]]) -> None:
    with AgentClient(ScriptedModel()) as client:
        pass
    client.close()
    assert isinstance(call(client).error, ClientClosedError)


def test_a_close_is_bounded_and_another_client_goes_on_with_what_it_has_left(tmp_path: Path) -> None:
    gate = Gate()
    client = AgentClient(Telling(behind(gate)), log=tmp_path / "log")
    caller = Caller(lambda: client.run("hello", session_id="s"))
    gate.arrived()
    client.close(grace=0)
    left = caller.result()
    assert left.is_failure
    assert "interrupted" in str(left.error)
    gate.open()
    with AgentClient(ScriptedModel("ok"), log=tmp_path / "log") as other:
        assert other.recover("s").get().text == "ok"


def test_of_a_turn_whose_session_nobody_knows_nothing_is_kept_unless_it_succeeds() -> None:
    gate, log = Gate(), MemoryEventLog()

    def answer(asked: str) -> str:
        if asked == "fail":
            raise ValueError
        if asked == "fail late":
            gate.wait()
            raise ValueError
        return "ok"

    with AgentClient(Telling(answer), log=log) as client:
        good = client.run("hello").get()
        assert client.run("fail").is_failure
        assert kept(log) == [good.session_id]
        scope = CancelScope()
        caller = Caller(partial(covered, scope, lambda: client.run("fail late")))
        gate.arrived()
        scope.cancel()
        left = caller.result().error
        assert isinstance(left, CancelledError)
        assert set(kept(log)) == {good.session_id, left.session_id}
        gate.open()
        until(lambda: kept(log) == [good.session_id])


def test_forgetting_deletes_a_conversation_unless_it_has_a_turn_under_way() -> None:
    gate, log = Gate(), MemoryEventLog()
    with AgentClient(ScriptedModel("ok", text(gate, "late")), log=log) as client:
        first = client.run("hello")
        second = Caller(lambda: client.continue_conversation(first, "hello"))
        gate.arrived()
        refused = client.forget(first)
        assert isinstance(refused.error, SessionBusyError)
        gate.open()
        assert second.result().get().text == "late"
        assert client.forget(first).get()
        assert not client.forget(first.get().session_id).get()
        assert not client.forget("nobody's").get()
        assert kept(log) == []


def test_a_tool_that_waits_for_its_own_session_is_told_at_once() -> None:
    def ask() -> str:
        """Ask."""
        result = client.run("and you?", session_id="s")
        assert isinstance(result.error, ReentrantRunError)
        joined = client.recover("s")  # the turn of this very call, which goes on
        assert isinstance(joined.error, ReentrantRunError)
        later = client.stream("s", "and then?", _Deaf()).get()
        assert isinstance(later.result(PATIENCE).error, ReentrantRunError)
        streams.append(later)
        return "no answer"

    streams: list[AgentStream] = []
    with AgentClient(ScriptedModel(calls(("ask", {})), "ok", "then"), tools=[ask]) as client:
        assert client.run("hello", session_id="s").get().text == "ok"
        assert streams[0].result(PATIENCE).get().text == "then"
        assert len(client.session("s").get().runs()) == 2


def test_sixteen_callers_are_served_at_once_though_one_thread_dispatches_all_sessions() -> None:
    all_here = Gate()
    with (
        ModelServer(default=text("served", all_here)) as server,
        AgentClient(ChatCompletions("small", base_url=server.url)) as client,
    ):
        callers = together(16, lambda number: client.run(f"query {number}"))
        all_here.arrived(16)  # the server answers nobody before
        assert sum(each.name.startswith("intermission-sessions-") for each in threading.enumerate()) == 1
        all_here.open()
        assert [caller.result().get().text for caller in callers] == ["served"] * 16
