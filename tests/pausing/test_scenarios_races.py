"""Reported failures of answers that come at once, too early, or twice."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from apps import records
from intermission import Event, LlmAgent, LongRunningFunctionTool, Run, RunConfig, Runner, RunStatus
from intermission.testing import ScriptedModel, calls
from intermission_storage import EventLog, LmdbEventLog, MemoryEventLog
from paused_apps import (
    PATIENCE,
    Effects,
    Elsewhere,
    app_named,
    assert_one_of_each,
    played,
    resumable,
    session,
)
from races import at_once
from scale import rounds


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """The path of what tools did."""
    return tmp_path / "effects"


def asks(event: Event) -> bool:
    """Whether an event says that a call waits for an answer."""
    return bool(event.long_running_tool_ids) and "adk_request_confirmation" in {
        call.name for call in event.function_calls
    }


@pytest.mark.scenario("C17")
@pytest.mark.parametrize("way", ["iterating", "subscribed"])
def test_an_answer_from_inside_the_handler_of_the_pause_is_taken_and_used_once(
    effects: Path, way: str
) -> None:
    log, counted = MemoryEventLog(), Effects(effects)
    count = rounds(50, 1000)
    with Runner(app_named("approval", counted), log=log) as runner:
        for number in range(count):
            key, answered = session(number), list[Run]()

            def handle(event: Event, key: object = key, answered: list[Run] = answered) -> None:
                if asks(event):
                    answers = {event.long_running_tool_ids[0]: {"confirmed": True}}
                    answered.append(runner.resume(**key, answers=answers).start())  # type: ignore[arg-type]  # the keywords of a session

            run = runner.run(**key, message="go")
            if way == "iterating":
                for event in run:
                    handle(event)
            else:
                handled = threading.Event()
                run.subscribe(handle, on_finally=lambda _, handled=handled: handled.set())  # type: ignore[misc]  # of each
                assert handled.wait(PATIENCE)
            assert run.result(PATIENCE).status is RunStatus.PAUSED
            (again,) = answered
            assert again.result(PATIENCE).status is RunStatus.COMPLETED
            assert_one_of_each(log, number)
            assert [str(record.kind) for record in records(log, **key)].count("answer") == 1
    assert len(counted.all) == count


@pytest.mark.scenario("C17")
def test_an_answer_from_another_process_as_soon_as_the_pause_is_seen_is_taken_and_used_once(
    tmp_path: Path, effects: Path
) -> None:
    path, counted = tmp_path / "log.lmdb", Effects(effects)
    count = rounds(20, 1000)
    with (
        LmdbEventLog(path, sync=False) as log,
        Runner(app_named("approval", counted), log=log) as runner,
        Elsewhere(path, effects, "approval") as child,
    ):
        assert child.pending("none") == []  # it is up
        for number in range(count):
            run = runner.run(**session(number), message="go")
            for event in run:
                if asks(event):
                    answers = {event.long_running_tool_ids[0]: {"confirmed": True}}
                    child.tell(["answer", str(number), answers])
            assert run.status is RunStatus.PAUSED
            assert child.hear()["status"] == "completed"
            assert_one_of_each(log, number)
            assert runner.pending(**session(number)) == []
        assert len(counted.all) == count


def take(run: Run, shown: list[list[Event]]) -> None:
    """Play a run, and keep what it shows."""
    shown.append(played(run))


@pytest.fixture(params=["memory", "lmdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventLog]:
    """A log of each kind."""
    if request.param == "memory":
        yield MemoryEventLog()
    else:
        with LmdbEventLog(tmp_path / "log.lmdb", sync=False) as log:
            yield log


@pytest.mark.scenario("C19")
@pytest.mark.parametrize("threads", [2, 6])
def test_one_approval_from_several_threads_at_once_makes_the_call_once_and_the_others_are_empty_runs(
    log: EventLog, effects: Path, threads: int
) -> None:
    counted = Effects(effects)
    count = rounds(10, 200)
    with Runner(app_named("approval", counted), log=log) as runner:
        for number in range(count):
            key = session(number)
            played(runner.run(**key, message="go"))
            (call,) = runner.pending(**key)
            runs = [runner.resume(**key, answers=[call.approve()]) for _ in range(threads)]
            shown: list[list[Event]] = []
            at_once(*[partial(take, run, shown) for run in runs])
            assert {run.result(PATIENCE).status for run in runs} == {RunStatus.COMPLETED}
            assert sorted(map(bool, shown)) == [False] * (threads - 1) + [True]
            assert len({run.invocation_id for run in runs}) == 1
            before = records(log, **key)
            assert [str(record.kind) for record in before].count("answer") == 1
            late = runner.resume(**key, answers=[call.approve()])
            assert played(late) == []
            assert late.status is RunStatus.COMPLETED
            assert records(log, **key) == before
            assert_one_of_each(log, number)
    assert len(counted.all) == count


@pytest.mark.scenario("C19")
def test_approval_and_rejection_at_once_are_decided_once(effects: Path) -> None:
    log, counted = MemoryEventLog(), Effects(effects)
    approved = 0
    with Runner(app_named("approval", counted), log=log) as runner:
        for number in range(rounds(20, 500)):
            key = session(number)
            played(runner.run(**key, message="go"))
            (call,) = runner.pending(**key)
            yes = runner.resume(**key, answers=[call.approve()])
            no = runner.resume(**key, answers=[call.reject("no")])
            at_once(partial(played, yes), partial(played, no))
            (heard,) = [
                one.response
                for event in runner.sessions.events(**key)
                for one in event.function_responses
                if one.name == "pay"
            ]
            approved += heard == {"paid": 7}
            assert len(counted.all) == approved
            assert_one_of_each(log, number)


def order(n: int) -> None:
    """Begin what others end."""


@pytest.mark.scenario("C19")
def test_one_result_from_outside_delivered_twice_at_once_is_told_to_the_model_once() -> None:
    log = MemoryEventLog()
    for number in range(rounds(10, 200)):
        model = ScriptedModel(calls(("order", {"n": 1})), "all done")
        agent = LlmAgent("one", model, tools=[LongRunningFunctionTool(order)])
        with Runner(resumable(agent), log=log) as runner:
            key = session(number)
            played(runner.run(**key, message="go", config=RunConfig(streaming=bool(number % 2))))
            (call,) = runner.pending(**key)
            runs = [runner.resume(**key, answers={call.id: {"v": value}}) for value in (1, 2)]
            at_once(*[partial(played, run) for run in runs])
            assert {run.status for run in runs} == {RunStatus.COMPLETED}
        assert len(model.requests) == 2
        assert_one_of_each(log, number)
