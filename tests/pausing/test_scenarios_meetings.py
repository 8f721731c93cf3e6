"""What meets a pause: a second one in its session, a cancel, a deletion, a failing branch, a close."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, records
from intermission import (
    FunctionTool,
    ParallelAgent,
    PendingCall,
    Runner,
    RunStatus,
    SessionBusyError,
    SessionClosedError,
    SessionNotFoundError,
    UnknownCallError,
)
from intermission.runs.receipt import CancelOutcome
from intermission.sessions.records import OPEN_RUNS, PENDING
from intermission.testing import FaultyLog, Gate, calls
from intermission_storage import LmdbEventLog, MemoryEventLog
from paused_apps import (
    PATIENCE,
    Effects,
    Elsewhere,
    agent,
    app_named,
    assert_one_of_each,
    played,
    resumable,
    session,
)
from pools import until
from races import at_once
from scale import rounds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a log."""
    return tmp_path / "log.lmdb"


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """The path of what tools did."""
    return tmp_path / "effects"


@pytest.mark.parametrize("reverse", [False, True])
def test_two_invocations_of_one_session_wait_side_by_side_and_are_gone_on_with_in_any_order_elsewhere(
    path: Path, effects: Path, reverse: bool
) -> None:
    with Elsewhere(path, effects, "sequence") as child:
        assert child.run()["status"] == child.run()["status"] == "paused"
        child.kill()
    counted = Effects(effects)
    with LmdbEventLog(path, sync=False) as log, Runner(app_named("sequence", counted), log=log) as runner:
        waiting = runner.pending(**KEY)
        assert len({call.invocation_id for call in waiting}) == 2
        for done, call in enumerate(sorted(waiting, key=lambda call: call.since, reverse=reverse), 1):
            run = runner.resume(**KEY, answers=[call.approve()])
            texts = [event.text for event in played(run) if event.text]
            assert texts == ["payer is done", "last is done"]
            assert (run.status, run.invocation_id) == (RunStatus.COMPLETED, call.invocation_id)
            assert counted.all == ["pay7"] * done
        assert runner.pending(**KEY) == []
        assert_one_of_each(log)


def test_a_cancel_by_key_closes_one_pause_of_two_the_newest_first(effects: Path) -> None:
    log = MemoryEventLog()
    with Runner(app_named("approval", Effects(effects)), log=log) as runner:
        for _ in range(2):
            played(runner.run(**KEY, message="go"))
        first, second = runner.pending(**KEY)
        assert runner.cancel(**KEY).outcome is CancelOutcome.ACCEPTED
        assert runner.pending(**KEY) == [first]
        with pytest.raises(UnknownCallError):
            runner.resume(**KEY, answers=[second.approve()]).start()
        assert runner.cancel(**KEY).outcome is CancelOutcome.ACCEPTED
        assert runner.cancel(**KEY).outcome is CancelOutcome.NOTHING_RUNNING
        assert log.index(PENDING) == []
        assert {run.status for run in runner.sessions.runs(**KEY)} == {RunStatus.CANCELLED}


def cancel(runner: Runner, number: int) -> None:
    """Close the pause."""
    runner.cancel(**session(number))


def delete(runner: Runner, number: int) -> None:
    """Delete the session."""
    runner.sessions.delete(**session(number))


@pytest.mark.parametrize("shared", [False, True], ids=["one runner", "two runners"])
@pytest.mark.parametrize("end", [cancel, delete])
def test_a_pause_that_is_answered_and_closed_at_once_is_answered_or_closed_and_never_half_of_each(
    effects: Path, end: Callable[[Runner, int], None], shared: bool
) -> None:
    log, counted = MemoryEventLog(), Effects(effects)
    app = app_named("approval", counted)
    with Runner(app, log=log) as runner, Runner(app, log=MemoryEventLog(share=log)) as second:
        for number in range(rounds(20, 300)):
            played(runner.run(**session(number), message="go"))
            (call,) = runner.pending(**session(number))
            run = (second if shared else runner).resume(**session(number), answers=[call.approve()])
            before = len(counted.all)

            def close(number: int = number) -> None:
                try:
                    end(runner, number)
                except SessionBusyError:  # it is at work on the answer
                    assert shared

            at_once(run.begin, close)
            assert run.wait_terminated(PATIENCE)
            done = len(counted.all) - before
            assert done <= 1
            assert run.status in {RunStatus.FAILED, RunStatus.COMPLETED, RunStatus.CANCELLED}
            if run.status is RunStatus.FAILED:
                assert done == 0
                with pytest.raises((UnknownCallError, SessionNotFoundError, SessionClosedError)):
                    run.result()
            elif run.status is RunStatus.CANCELLED and run.result().last_seq is None:
                # The cancel met the answer while that waited in line; the pause is as it was.
                assert (done, runner.pending(**session(number))) == (0, [call])
                end(runner, number)
            assert runner.pending(**session(number)) == []
        assert log.index(PENDING) == log.index(OPEN_RUNS) == []
        assert runner.recover() == []


def test_a_cancel_by_key_that_meets_an_answer_elsewhere_between_look_and_append_says_who_is_busy(
    effects: Path,
) -> None:
    inner, gate = MemoryEventLog(), Gate()
    faulty = FaultyLog(MemoryEventLog(share=inner))

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        gate.wait()
        return {"paid": n}

    app = resumable(
        agent("one", calls(("pay", {"n": 7})), tools=[FunctionTool(pay, require_confirmation=True)])
    )
    with Runner(app, log=faulty) as runner, Runner(app, log=inner) as other:
        played(runner.run(**KEY, message="go"))
        (call,) = runner.pending(**KEY)
        append = faulty.hold(lambda _, written: written[0].kind == "cancel_requested")
        busy: list[SessionBusyError] = []

        def close() -> None:
            try:
                runner.cancel(**KEY)
            except SessionBusyError as error:
                busy.append(error)

        closing = threading.Thread(target=close)
        closing.start()
        append.arrived()
        run = other.resume(**KEY, answers=[call.approve()]).start()
        gate.arrived()
        append.open()
        closing.join(PATIENCE)
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.COMPLETED
        assert [error.owner for error in busy] == [inner.owner]
        assert_one_of_each(inner)


def test_an_answer_that_is_sent_again_elsewhere_while_it_is_being_used_is_an_empty_run_at_once(
    effects: Path,
) -> None:
    log, gate, counted = MemoryEventLog(), Gate(), Effects(effects)

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        counted.add(f"pay{n}")
        gate.wait()
        return {"paid": n}

    app = resumable(
        agent("one", calls(("pay", {"n": 7})), tools=[FunctionTool(pay, require_confirmation=True)])
    )
    with Runner(app, log=log) as runner, Runner(app, log=MemoryEventLog(share=log)) as other:
        played(runner.run(**KEY, message="go"))
        (call,) = other.pending(**KEY)
        run = runner.resume(**KEY, answers=[call.approve()]).start()
        gate.arrived()
        before = records(log)
        again = other.resume(**KEY, answers=[call.approve()])
        assert played(again) == []
        assert (again.status, again.invocation_id) == (RunStatus.COMPLETED, call.invocation_id)
        with pytest.raises(SessionBusyError):
            other.resume(**KEY, invocation_id=call.invocation_id).start()
        assert records(log) == before
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.COMPLETED
    assert counted.all == ["pay7"]


def test_a_branch_that_fails_closes_the_pause_of_another_and_going_on_opens_it_again(effects: Path) -> None:
    counted, broken = Effects(effects), [True]

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        counted.add(f"pay{n}")
        return {"paid": n}

    def fail(*_: Any) -> None:
        """Fail, when the other branch has asked."""
        if broken[0]:
            until(lambda: runner.pending(**KEY) != [])
            raise OSError("the line is down")

    payer = agent("payer", calls(("pay", {"n": 7})), tools=[FunctionTool(pay, require_confirmation=True)])
    failing = agent("failing", before_model_callback=fail)
    log = MemoryEventLog()
    with Runner(resumable(ParallelAgent("par", sub_agents=[payer, failing])), log=log) as runner:
        run = runner.run(**KEY, message="go")
        with pytest.raises(OSError, match="down"):
            played(run)
        assert run.status is RunStatus.FAILED
        assert runner.pending(**KEY) == []
        broken[0] = False
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        played(again)
        assert again.status is RunStatus.PAUSED
        (call,) = runner.pending(**KEY)
        last = runner.resume(**KEY, answers=[call.approve()])
        played(last)
        assert last.status is RunStatus.COMPLETED
        assert_one_of_each(log)
    assert counted.all == ["pay7"]


def test_a_close_while_another_branch_works_keeps_the_pause_and_it_is_answered_in_the_next_process(
    effects: Path,
) -> None:
    log, gate, counted = MemoryEventLog(), Gate(), Effects(effects)
    first = Runner(app_named("held", counted, gate.wait), log=MemoryEventLog(share=log))
    run = first.run(**KEY, message="go").start()
    gate.arrived()
    waiting: list[PendingCall] = []
    while not waiting:
        waiting = first.pending(**KEY)
    first.close(0.0)
    assert run.result(PATIENCE).status is RunStatus.INTERRUPTED
    gate.open()
    assert run.wait_terminated(PATIENCE)
    with Runner(app_named("held", counted), log=log) as runner:
        assert runner.pending(**KEY) == waiting
        again = runner.resume(**KEY, answers=[waiting[0].approve()])
        played(again)
        assert again.status is RunStatus.COMPLETED
        assert runner.recover() == []
        assert_one_of_each(log)
    assert counted.all.count("pay7") == 1
