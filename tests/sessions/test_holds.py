"""`RunConfig(residual="hold")`: the next run waits for what the run before has left behind."""

import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_with, kinds, records
from intermission import (
    OverloadedError,
    ReentrantRunError,
    Residual,
    Run,
    RunConfig,
    Runner,
    RunStatus,
    RunTimeoutError,
    SessionClosedError,
    ToolContext,
)
from intermission.testing import Gate, ManualClock, ScriptedModel, calls
from intermission_storage import EventLog, MemoryEventLog
from loops import PATIENCE
from pools import until
from turns import responses

HOLD = RunConfig(residual="hold", grace=5)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """What holds the stubborn tool; open at the end."""
    one = Gate()
    yield one
    one.open()


def holding(gate: Gate, log: EventLog, clock: ManualClock | None = None, *, max_queued: int = 1000) -> Runner:
    """A runner whose model calls a tool that stays at the gate, once, and then only talks."""

    def stubborn() -> str:
        gate.wait()
        return "late"

    model = ScriptedModel(calls(("stubborn", {})), default="ok")
    return Runner(app_with(model, stubborn), log=log, config=HOLD, clock=clock, max_queued=max_queued)


def held(runner: Runner, gate: Gate) -> Run:
    """Have a run that is cancelled while its tool stays at the gate, and return it."""
    run = runner.run(**KEY, message="a").start()
    gate.arrived()
    run.cancel()
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    return run


def left(runner: Runner) -> list[str]:
    """The tools that have outlived their runs; the strand of a run may take a moment to be gone."""
    return [work.name for work in runner.residual() if work.what == "tool"]


def test_the_next_run_begins_when_the_work_of_the_one_before_has_ended_and_not_earlier(gate: Gate) -> None:
    log = MemoryEventLog()
    with holding(gate, log, ManualClock()) as runner:
        first = held(runner, gate)
        second = runner.run(**KEY, message="b").start()  # returns, for it is in line
        third = runner.run(**KEY, message="c").start()
        before = kinds(log)
        runner.sessions.set_state(**KEY, delta={"x": 1})  # passes through the session's mailbox
        assert kinds(log) == [*before, "state_set"]
        assert (second.state, third.state) == ("queued", "queued")
        assert runner.active()[0].invocation_id == second.invocation_id
        gate.open()
        assert (second.answer(PATIENCE), third.answer(PATIENCE)) == ("ok", "ok")
        assert first.wait_terminated(0)
        assert [record.data["status"] for record in records(log) if record.kind == "run_ended"] == [
            *("cancelled", "completed", "completed")
        ]


def test_when_the_grace_is_over_the_next_run_begins_though_the_work_goes_on(gate: Gate) -> None:
    clock = ManualClock()
    with holding(gate, MemoryEventLog(), clock) as runner:
        first = held(runner, gate)
        second = runner.run(**KEY, message="b").start()
        clock.advance(4.9)
        assert second.state == "queued"
        clock.advance(0.2)
        assert second.answer(PATIENCE) == "ok"
        assert left(runner) == ["stubborn"]
        assert not first.wait_terminated(0)


def test_no_thread_is_held_by_the_wait(gate: Gate) -> None:
    clock = ManualClock()
    with holding(gate, MemoryEventLog(), clock) as runner:
        held(runner, gate)
        pool = runner._services.workers  # pyright: ignore[reportPrivateUsage]  # to count them
        until(lambda: pool.busy == 1)
        waiting = [runner.run(**KEY, message="b").start() for _ in range(20)]
        assert (pool.busy, pool.waiting) == (1, 0)  # the tool alone
        gate.open()
        assert [run.answer(PATIENCE) for run in waiting] == ["ok"] * 20


def test_a_call_that_was_given_up_holds_the_session_of_a_run_that_has_completed(gate: Gate) -> None:
    def stubborn() -> None:
        gate.wait()

    clock, model = ManualClock(), ScriptedModel(calls(("stubborn", {})), default="ok")
    config = RunConfig(residual=Residual.HOLD, grace=60, tool_timeout=1)
    with Runner(app_with(model, stubborn), log=MemoryEventLog(), config=config, clock=clock) as runner:
        first = runner.run(**KEY, message="a").start()
        gate.arrived()
        clock.advance(1)
        assert first.answer(PATIENCE) == "ok"
        second = runner.run(**KEY, message="b").start()
        assert second.state == "queued"
        gate.open()
        assert second.answer(PATIENCE) == "ok"


def test_it_is_the_run_before_that_holds_and_not_the_next_one(gate: Gate) -> None:
    release = RunConfig(residual="release")
    with holding(gate, MemoryEventLog(), ManualClock()) as runner:
        held(runner, gate)
        second = runner.run(**KEY, message="b", config=release).start()
        assert second.state == "queued"
        other = runner.run(user_id="u", session_id="other", message="b")  # nobody else waits
        assert other.answer(PATIENCE) == "ok"
        gate.open()
        assert second.answer(PATIENCE) == "ok"


@pytest.mark.parametrize("config", [RunConfig(), RunConfig(residual="hold", grace=0)])
def test_without_it_or_without_a_grace_the_next_run_begins_at_once(gate: Gate, config: RunConfig) -> None:
    with holding(gate, MemoryEventLog(), ManualClock()) as runner:
        first = runner.run(**KEY, message="a", config=config).start()
        gate.arrived()
        first.cancel()
        assert runner.run(**KEY, message="b").answer(PATIENCE) == "ok"


def test_a_run_that_waits_can_be_cancelled_and_can_expire_and_leaves_no_record(gate: Gate) -> None:
    clock, log = ManualClock(), MemoryEventLog()
    with holding(gate, log, clock) as runner:
        held(runner, gate)
        before = records(log)
        second = runner.run(**KEY, message="b").start()
        third = runner.run(**KEY, message="c", config=RunConfig(timeout=1)).start()
        assert second.cancel().accepted
        assert second.result(PATIENCE).status is RunStatus.CANCELLED
        clock.advance(1)
        assert isinstance(third.result(PATIENCE).error, RunTimeoutError)
        assert records(log) == before
        gate.open()
        assert runner.run(**KEY, message="d").answer(PATIENCE) == "ok"


def test_runs_that_wait_for_the_work_count_among_those_that_wait(gate: Gate) -> None:
    with holding(gate, MemoryEventLog(), ManualClock(), max_queued=2) as runner:
        held(runner, gate)
        waiting = [runner.run(**KEY, message="b").start() for _ in range(2)]
        with pytest.raises(OverloadedError, match="2 runs wait"):
            runner.run(**KEY, message="c").start()
        gate.open()
        assert [run.answer(PATIENCE) for run in waiting] == ["ok", "ok"]


def test_one_may_always_wait_for_the_work(gate: Gate) -> None:
    with holding(gate, MemoryEventLog(), ManualClock(), max_queued=0) as runner:
        held(runner, gate)
        second = runner.run(**KEY, message="b").start()
        with pytest.raises(OverloadedError, match="1 runs wait"):
            runner.run(**KEY, message="c").start()
        gate.open()
        assert second.answer(PATIENCE) == "ok"


def test_a_close_refuses_the_runs_that_wait_and_does_not_wait_itself(gate: Gate) -> None:
    with holding(gate, MemoryEventLog(), ManualClock()) as runner:
        held(runner, gate)
        second = runner.run(**KEY, message="b").start()
        runner.close(grace=PATIENCE)
        assert isinstance(second.result(0).error, SessionClosedError)


def test_deleting_the_session_refuses_the_runs_that_wait_and_the_next_one_of_its_name_begins(
    gate: Gate,
) -> None:
    log = MemoryEventLog()
    with holding(gate, log, ManualClock()) as runner:
        held(runner, gate)
        second = runner.run(**KEY, message="b").start()
        assert runner.sessions.delete(**KEY)
        assert isinstance(second.result(PATIENCE).error, SessionClosedError)
        assert kinds(log) == []
        assert runner.run(**KEY, message="c").answer(PATIENCE) == "ok"
        assert left(runner) == ["stubborn"]


def test_a_session_that_left_memory_meanwhile_is_held_all_the_same(gate: Gate) -> None:
    def stubborn() -> None:
        gate.wait()

    clock, model = ManualClock(), ScriptedModel(calls(("stubborn", {})), default="ok")
    app = app_with(model, stubborn)
    with Runner(app, log=MemoryEventLog(), config=HOLD, clock=clock, resident_sessions=0) as runner:
        held(runner, gate)
        until(lambda: not runner._directory.active)  # pyright: ignore[reportPrivateUsage]  # to see it gone
        second = runner.run(**KEY, message="b").start()
        assert second.state == "queued"
        gate.open()
        assert second.answer(PATIENCE) == "ok"


def test_left_work_that_waits_for_its_own_session_is_refused_at_once_while_it_holds_it() -> None:
    answers, cancelled, gate = list[object](), threading.Event(), Gate()

    def waits_for_itself(tool_context: ToolContext) -> None:
        begun.set()
        assert cancelled.wait(PATIENCE)
        next_run = runner.run(**KEY, message="b").start()
        try:
            answers.append(next_run.result(PATIENCE))
        except ReentrantRunError as error:
            answers.append(error)
        next_run.cancel()  # else it begins when this has ended
        gate.wait()

    begun = threading.Event()
    model = ScriptedModel(calls(("waits_for_itself", {})), default="ok")
    clock = ManualClock()
    with Runner(app_with(model, waits_for_itself), log=MemoryEventLog(), config=HOLD, clock=clock) as runner:
        run = runner.run(**KEY, message="a").start()
        assert begun.wait(PATIENCE)
        run.cancel()
        run.result(PATIENCE)
        cancelled.set()
        gate.arrived()
        assert [type(answer) for answer in answers] == [ReentrantRunError]
        gate.open()
        assert run.wait_terminated(PATIENCE)
    assert responses(model) == []
