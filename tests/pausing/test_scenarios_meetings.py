"""What meets a pause: a second one in its session, a cancel, a deletion, a failing branch, a close."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, kinds, records
from intermission import (
    FunctionTool,
    ParallelAgent,
    PendingCall,
    RunConfig,
    Runner,
    RunStatus,
    RunTimeoutError,
    SessionBusyError,
    SessionClosedError,
    SessionNotFoundError,
    UnknownCallError,
)
from intermission.pending import CONFIRMATION
from intermission.runs.receipt import CancelOutcome
from intermission.sessions.records import OPEN_RUNS, PENDING
from intermission.testing import FaultyLog, Gate, calls
from intermission_storage import EventLog, LmdbEventLog, MemoryEventLog
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
from turns import assert_legal


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


def test_answers_of_threads_to_the_calls_of_one_turn_at_once_are_all_used_and_the_model_is_asked_once() -> (
    None
):
    done: list[int] = []

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        done.append(n)
        return {"paid": n}

    many = range(6)
    for _ in range(rounds(5, 100)):
        log: EventLog = MemoryEventLog()
        done.clear()
        one = agent(
            "one",
            calls(*[("pay", {"n": n}) for n in many]),
            tools=[FunctionTool(pay, require_confirmation=True)],
        )
        with Runner(resumable(one), log=log) as runner:
            played(runner.run(**KEY, message="go"))
            runs = [runner.resume(**KEY, answers=[call.approve()]) for call in runner.pending(**KEY)]
            at_once(*[partial(played, run) for run in runs])
            statuses = [run.status for run in runs]
            assert statuses.count(RunStatus.COMPLETED) == 1
            assert statuses.count(RunStatus.PAUSED) == len(many) - 1
            assert_one_of_each(log)
            model: Any = one.model
            assert len(model.requests) == 2
        assert sorted(done) == [*many]
        assert kinds(log).count("answer") == len(many)


def test_an_answer_given_while_another_branch_still_works_counts_when_the_run_has_paused(
    effects: Path,
) -> None:
    log, gate, counted = MemoryEventLog(), Gate(), Effects(effects)
    with Runner(app_named("held", counted, gate.wait), log=log) as runner:
        run = runner.run(**KEY, message="go").start()
        gate.arrived()
        until(lambda: runner.pending(**KEY) != [])
        (call,) = runner.pending(**KEY)
        answer = runner.resume(**KEY, answers=[call.approve()])
        answer.begin()
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.PAUSED
        assert answer.result(PATIENCE).status is RunStatus.COMPLETED
        assert_one_of_each(log)
    assert sorted(counted.all) == ["look", "pay7"]


def test_recovery_and_an_answer_that_come_at_once_go_on_with_a_run_once(effects: Path) -> None:
    log, gate, counted = MemoryEventLog(), Gate(), Effects(effects)
    count = rounds(5, 50)
    first = Runner(app_named("held", counted, gate.wait), log=MemoryEventLog(share=log))
    runs = [first.run(**session(number), message="go").start() for number in range(count)]
    gate.arrived(count)
    for number in range(count):
        until(lambda number=number: first.pending(**session(number)) != [])  # type: ignore[misc]  # the session of each
    first.close(0.0)
    gate.open()
    assert all(run.wait_terminated(PATIENCE) for run in runs)
    app = app_named("held", counted)
    with Runner(app, log=log) as runner, Runner(app, log=MemoryEventLog(share=log)) as other:
        recovered = {run.session_id: run for run in runner.recover()}
        assert len(recovered) == count
        for number in range(count):
            (call,) = other.pending(**session(number))
            answer = other.resume(**session(number), answers=[call.approve()])
            at_once(recovered[str(number)].begin, answer.begin)
            assert answer.result(PATIENCE).status is RunStatus.COMPLETED
            ended = recovered[str(number)].result(PATIENCE).status
            assert ended in {RunStatus.PAUSED, RunStatus.ELSEWHERE}
            assert_one_of_each(log, number)
        assert log.index(PENDING) == log.index(OPEN_RUNS) == []
    assert counted.all.count("pay7") == count


@pytest.mark.parametrize("end", ["cancel", "expire", "close"])
def test_an_approval_of_a_call_whose_run_ended_in_it_is_kept_and_the_other_question_comes_back(
    effects: Path, end: str
) -> None:
    counted, gate, log = Effects(effects), Gate(), MemoryEventLog()

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        counted.add(f"pay{n}")
        gate.wait()
        return {"paid": n}

    turn = calls(("pay", {"n": 7}), ("pay", {"n": 8}))

    def made() -> Runner:
        one = agent("one", turn, tools=[FunctionTool(pay, require_confirmation=True)])
        return Runner(resumable(one), log=MemoryEventLog(share=log))

    runner = made()
    played(runner.run(**KEY, message="go"))
    first, second = runner.pending(**KEY)
    config = RunConfig(timeout=0.5 if end == "expire" else None)
    run = runner.resume(**KEY, answers=[first.approve()], config=config).start()
    gate.arrived()
    if end == "cancel":
        run.cancel("enough")
    elif end == "close":
        runner.close(0.0)
    with suppress(RunTimeoutError):
        run.result(PATIENCE)
    assert run.status == {"cancel": "cancelled", "expire": "expired", "close": "interrupted"}[end]
    gate.open()
    assert run.wait_terminated(PATIENCE)
    runner.close()
    with made() as runner:
        assert runner.pending(**KEY) == ([second] if end == "close" else [])
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert CONFIRMATION not in {one.name for event in played(again) for one in event.function_calls}
        assert again.status is RunStatus.PAUSED
        assert runner.pending(**KEY) == [second]
        last = runner.resume(**KEY, answers=[second.reject()])
        assert [event.text for event in played(last) if event.text] == ["one is done"]
        assert_one_of_each(log)
    assert counted.all == ["pay7", "pay7"]  # under one id: nobody knows what came of the first


def test_a_stop_closes_the_pause_of_its_run_for_good_and_the_next_message_finds_a_legal_history(
    effects: Path,
) -> None:
    log, gate, counted = MemoryEventLog(), Gate(), Effects(effects)
    app = app_named("held", counted, gate.wait)
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="go").start()
        gate.arrived()
        until(lambda: runner.pending(**KEY) != [])
        (call,) = runner.pending(**KEY)
        run.stop("for today")
        gate.open()
        assert (run.result(PATIENCE).status, run.result().pending) == (RunStatus.STOPPED, ())
        assert runner.pending(**KEY) == []
        with pytest.raises(UnknownCallError, match=r"ended stopped\. Nothing was stored\.$"):
            runner.resume(**KEY, answers=[call.approve()]).start()
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert played(again) == []
        assert again.status is RunStatus.COMPLETED
        played(runner.run(**KEY, message="more"))
        payer: Any = app.root_agent.find_agent("payer")
        for request in payer.model.requests:
            assert_legal(request)
        assert len(runner.pending(**KEY)) == 1  # the new run's
    assert counted.all == ["look", "look"]
