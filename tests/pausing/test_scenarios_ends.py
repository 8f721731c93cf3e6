"""What ends a run in which calls wait, and answers that meet a run at work or each other in one process."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, kinds
from intermission import (
    FunctionTool,
    RunConfig,
    Runner,
    RunStatus,
    RunTimeoutError,
    UnknownCallError,
)
from intermission.pending import CONFIRMATION
from intermission.sessions.records import OPEN_RUNS, PENDING
from intermission.testing import Gate, calls
from intermission_storage import EventLog, MemoryEventLog
from paused_apps import (
    PATIENCE,
    Effects,
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
def effects(tmp_path: Path) -> Path:
    """The path of what tools did."""
    return tmp_path / "effects"


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
