"""How runs end: by calls given up, stops, deadlines, dead actors, full queues, circles and closes."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps import KEY, Slow, app_of, app_with, kinds, records, runs_in_order
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    Event,
    OverloadedError,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    SessionClosedError,
    UnrequestedCancelError,
)
from intermission.agents.effects import Call, Fork, Steps
from intermission.kernel.ref import ActorDeadError
from intermission.kernel.scope import Cancelled
from intermission.kernel.waits import ReentrantRunError
from intermission.runs.result import RunResult
from intermission.sessions.records import OPEN_RUNS
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import LogFullError, MemoryEventLog


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def test_a_call_that_is_cancelled_is_given_up_and_its_run_goes_on(gate: Gate) -> None:
    def slow() -> str:
        gate.wait()
        return "late"

    model = ScriptedModel(calls(("slow", {})), "done")
    with Runner(app_with(model, slow), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        (call,) = runner.sessions.events(**KEY)[1].function_calls
        assert run.cancel_call(call.id, "too slow")
        assert not run.cancel_call(call.id)
        assert run.answer(30) == "done"
        assert [(work.call_id, work.what) for work in runner.residual()] == [(call.id, "tool")]
        assert not run.wait_terminated(0)
        gate.open()
        assert run.wait_terminated(30)
        assert runner.residual() == []
        (response,) = runner.sessions.events(**KEY)[2].function_responses
        assert response.response["outcome"] == "unknown"


def test_a_call_beyond_its_time_is_given_up_and_the_model_is_told(gate: Gate) -> None:
    def slow() -> str:
        gate.wait()
        return "late"

    model = ScriptedModel(calls(("slow", {})), "done")
    config = RunConfig(tool_timeout=0.05)
    with Runner(app_with(model, slow), log=MemoryEventLog(), config=config) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.answer(30) == "done"
        response = run.result().events[2].function_responses[0].response
        assert (response["status"], response["outcome"]) == ("timeout", "unknown")
        gate.open()
        assert run.wait_terminated(30)


def test_a_run_beyond_its_time_expires_and_a_later_cancel_is_too_late(gate: Gate) -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=log, config=RunConfig(timeout=0.05)) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result(30).status is RunStatus.EXPIRED
        assert run.cancel().already_ended
        gate.open()
    assert [record.kind for record in records(log)[-2:]] == ["cancel_requested", "run_ended"]


def test_an_agent_that_cancels_its_own_scope_cancels_its_run() -> None:
    class Quitting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            context.cancellation.cancel("enough")
            yield context.event(self.name, content=Content.model("never"))

    with Runner(app_of(Quitting("quitting")), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result(30)
    assert (result.status, result.reason) == (RunStatus.CANCELLED, "enough")


def test_a_cancelled_that_nobody_asked_for_fails_the_run() -> None:
    class Odd(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield context.event(self.name, content=Content.model("one"))
            raise Cancelled("by nobody")

    with Runner(app_of(Odd("odd")), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result(30)
        assert result.status is RunStatus.FAILED
        assert isinstance(result.error, UnrequestedCancelError)
        assert str(result.error).startswith(
            "agent 'odd' was cancelled, and not by its run (Cancelled: by nobody)"
        )


def test_the_first_error_of_a_branch_ends_the_others_and_the_run(gate: Gate) -> None:
    class Failing(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield context.event(self.name, content=Content.model("one"))
            gate.arrived()
            raise ValueError("a branch")

    class Waiting(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield Call(gate.wait)
            yield context.event(self.name, content=Content.model("never"))

    class Forking(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield Fork((Failing("failing"), Waiting("waiting")))

    log = MemoryEventLog()
    with Runner(app_of(Forking("forking")), log=log) as runner:
        with pytest.raises(ValueError, match="a branch"):
            runner.run(**KEY, message="a").answer(30)
        gate.open()
    assert [event.data.get("branch") for event in records(log) if event.kind == "event"] == [None, "failing"]


def session_ref(runner: Runner) -> Any:
    """The session's actor; there is no public way to it."""
    (entry,) = runner._directory._sessions.values()  # pyright: ignore[reportPrivateUsage]  # see above
    return entry.ref


@pytest.mark.scenario("D12")
def test_runs_of_a_session_whose_actor_stops_end_failed_and_the_session_begins_anew(gate: Gate) -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "one"), default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        waiting = runner.run(**KEY, message="b").start()
        gate.arrived()
        session_ref(runner).stop()
        assert isinstance(run.result(30).error, SessionClosedError)
        assert waiting.result(30).status is RunStatus.FAILED
        gate.open()
        assert runner.run(**KEY, message="c").answer(30) == "ok"
    assert len(runs_in_order(log)) == 2


def test_a_run_whose_own_actor_stops_ends_failed(gate: Gate) -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "one"), default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        gate.arrived()
        actor = session_ref(runner).mailbox.actor
        actor._current.agent.stop()
        assert isinstance(run.result(30).error, ActorDeadError)
        gate.open()
        assert runner.run(**KEY, message="b").answer(30) == "ok"


def test_one_run_more_than_may_wait_is_refused_and_a_cancelled_one_frees_its_place(gate: Gate) -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "one"), default="ok")), log=log, max_queued=1) as runner:
        first = runner.run(**KEY, message="a").start()
        gate.arrived()
        second = runner.run(**KEY, message="b").start()
        with pytest.raises(OverloadedError):
            runner.run(**KEY, message="c").start()
        assert second.cancel().accepted
        assert second.result(30).last_seq is None
        third = runner.run(**KEY, message="d").start()
        gate.open()
        assert (first.answer(30), third.answer(30)) == ("one", "ok")
    assert len(runs_in_order(log)) == 2


def test_where_no_run_may_wait_an_idle_session_takes_one_and_takes_the_next_as_soon_as_that_has_ended(
    gate: Gate,
) -> None:
    model = ScriptedModel(text(gate, "one"), default="ok")
    with Runner(app_with(model), log=MemoryEventLog(), max_queued=0) as runner:
        first = runner.run(**KEY, message="a").start()
        with pytest.raises(OverloadedError, match="0 runs wait"):
            runner.run(**KEY, message="b").start()
        gate.open()
        assert first.answer(30) == "one"
        for _ in range(50):
            assert runner.run(**KEY, message="c").answer(30) == "ok"


def test_the_run_that_an_idle_session_takes_up_at_once_does_not_count_as_waiting() -> None:
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(), max_queued=1) as runner:
        for number in range(100):
            session = runner.session(user_id="u", session_id=f"s{number}")
            both = [session.run("a"), session.run("b")]
            for run in both:
                run.begin()
            assert [run.answer(30) for run in both] == ["ok", "ok"]


def test_a_tool_that_waits_for_its_own_session_is_told_at_once_and_may_start_a_run_behind_its_own() -> None:
    errors, started = list[str](), list[Run]()

    def again() -> str:
        try:
            runner.run(**KEY, message="inner").result(30)
        except ReentrantRunError as error:
            errors.append(str(error))
        started.append(runner.run(**KEY, message="behind").start())
        return "done"

    model = ScriptedModel(calls(("again", {})), default="ok")
    with Runner(app_with(model, again), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="outer").answer(30) == "ok"
        assert len(errors) == 1
        assert started[0].answer(30) == "ok"


@pytest.mark.parametrize("whose", ["run", "runner"])
def test_a_call_that_cancels_its_own_run_and_waits_is_told_that_the_run_is_cancelled_all_the_same(
    whose: str,
) -> None:
    errors = list[str]()

    def leave() -> None:
        try:
            if whose == "run":
                run.cancel(wait=True)
            else:
                runner.cancel(**KEY, wait=True)
        except ReentrantRunError as error:
            errors.append(str(error))

    with Runner(app_with(ScriptedModel(calls(("leave", {}))), leave), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result(30).status is RunStatus.CANCELLED
        assert run.wait_terminated(30)
    assert len(errors) == 1
    assert "The cancel itself was done" in errors[0]
    assert "Nothing was begun" not in errors[0]


def test_sessions_that_wait_for_each_other_in_a_circle_are_told_at_once() -> None:
    errors = list[ReentrantRunError]()

    def other(session: str) -> str:
        try:
            return runner.run(user_id="u", session_id=session, message="hi").answer(30)
        except ReentrantRunError as error:
            errors.append(error)
            return "a circle"

    model = ScriptedModel(
        calls(("other", {"session": "b"})), calls(("other", {"session": "a"})), default="ok"
    )
    with Runner(app_with(model, other), log=MemoryEventLog()) as runner:
        assert runner.run(user_id="u", session_id="a", message="hi").answer(30) == "ok"
    assert len(errors) == 1


def test_a_run_inside_a_call_is_cancelled_with_the_outer_run_unless_it_was_started(gate: Gate) -> None:
    inner, free = list[Run](), list[Run]()

    def nest() -> str:
        free.append(runner.run(user_id="u", session_id="free", message="hi").start())
        inner.append(runner.run(user_id="u", session_id="inner", message="hi"))
        return inner[0].answer(30)

    model = ScriptedModel(calls(("nest", {})), text(gate, "free"), text(gate, "inner"))
    with Runner(app_with(model, nest), log=MemoryEventLog()) as runner:
        outer = runner.run(**KEY, message="hi").start()
        gate.arrived(2)
        assert outer.cancel(wait=False).accepted
        assert outer.result(30).status is RunStatus.CANCELLED
        assert inner[0].result(30).status is RunStatus.CANCELLED
        gate.open()
        assert free[0].result(30).status is RunStatus.COMPLETED


def test_released_runs_end_interrupted_give_up_their_claim_and_stay_in_the_index(gate: Gate) -> None:
    log = MemoryEventLog()
    runner = Runner(app_with(ScriptedModel(text(gate, "one"))), log=log)
    run = runner.run(**KEY, message="hi").start()
    gate.arrived()
    runner.close(grace=0, runs="release")
    gate.open()
    assert run.result(0).status is RunStatus.INTERRUPTED
    assert log.head(log.streams()[0]).claim is None
    assert [entry.key[-1] for entry in log.index(OPEN_RUNS)] == [run.invocation_id]
    assert records(log)[-1].data["status"] == "interrupted"


def test_a_refused_end_keeps_the_claim_and_refuses_runs_until_an_append_works() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        log.refuse("run_ended", LogFullError("no room"))
        first = runner.run(**KEY, message="a").result(30)
        assert isinstance(first.error, LogFullError)
        log.refuse("run_ended", LogFullError("still no room"))
        refused = runner.run(**KEY, message="b")
        with pytest.raises(LogFullError, match="still no room"):
            refused.start()
        assert runner.run(**KEY, message="c").answer(30) == "ok"
    assert [record.data["status"] for record in records(log) if record.kind == "run_ended"] == [
        *("failed", "completed"),
    ]


def test_a_run_that_is_cancelled_while_an_end_is_being_paid_leaves_the_next_one_whole() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        log.refuse("run_ended", LogFullError("no room"))
        runner.run(**KEY, message="a").result(30)
        paying = log.hold("run_ended")
        second = runner.run(**KEY, message="b")
        second.begin()
        paying.arrived()
        assert second.cancel().accepted
        assert second.result(30).last_seq is None
        third = runner.run(**KEY, message="c")
        third.begin()
        paying.open()
        assert third.answer(30) == "ok"
    assert len(runs_in_order(log)) == 2


@pytest.mark.parametrize("message", ["a", "b"])
def test_a_subscriber_gets_one_end_and_its_own_error_is_the_runs(message: str, gate: Gate) -> None:
    told, done = list[object](), threading.Event()

    def on_event(event: Event) -> None:
        told.append(event.text)
        if message == "b":
            raise ValueError("a subscriber")

    def on_finally(result: RunResult) -> None:
        told.append(result.status)
        done.set()

    gate.open()
    with Runner(app_of(Slow(gate)), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message=message).subscribe(
            on_event, lambda error: told.append(str(error)), lambda: told.append("complete"), on_finally
        )
        assert done.wait(30)
    if message == "a":
        assert told == ["one", "complete", RunStatus.COMPLETED]
    else:
        assert told[:2] == ["two", "a subscriber"]
        assert told[2] in {RunStatus.FAILED, RunStatus.COMPLETED}


def test_a_subscriber_that_disposes_itself_gets_no_end_but_its_finally(gate: Gate) -> None:
    told, done = list[object](), threading.Event()
    with Runner(app_with(ScriptedModel(text(gate, "ok"))), log=(log := MemoryEventLog())) as runner:
        run = runner.run(**KEY, message="hi")
        subscription = run.subscribe(
            told.append, told.append, lambda: told.append("complete"), lambda _: done.set()
        )
        gate.arrived()
        subscription.dispose()
        subscription.dispose()
        assert done.wait(30)
        assert run.result(0).status is RunStatus.CANCELLED
        gate.open()
    assert told == []
    assert kinds(log)[-1] == "run_ended"
