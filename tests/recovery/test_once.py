"""What stays done, whichever way a run ended and is gone on with: by an answer, its id, or `recover`."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apps import APP, KEY, records
from failpoints import Diary, Points
from in_process import in_process_app
from intermission import (
    App,
    FunctionTool,
    LlmAgent,
    ModelError,
    ResumabilityConfig,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    ToolExecution,
)
from intermission.models import ModelRequest
from intermission.testing import Gate, ManualClock, ScriptedModel, calls, contents_problems, error, text
from intermission_storage import Kind, LmdbEventLog, MemoryEventLog
from left import left, recovered, status_of
from nursery import KILLED, Nursery
from pids import until_ended
from planned import planned_app
from pools import until

PATIENCE = 60.0
SUBSCRIBE = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)


def resumable(model: ScriptedModel, *tools: Any) -> App:
    """Return an app whose runs can be gone on with."""
    agent = LlmAgent("agent", model, tools=tools)
    return App(APP, agent, resumability_config=ResumabilityConfig(is_resumable=True))


def responses(request: ModelRequest) -> list[dict[str, Any]]:
    """Return what a model is told of its calls, wherever that stands."""
    return [dict(one.response) for content in request.contents for one in content.function_responses]


@pytest.mark.scenario("C1")
@pytest.mark.parametrize("ended", [0, 1, 2])
def test_of_three_calls_at_once_the_two_that_had_begun_are_made_and_the_one_that_had_ended_is_not(
    nursery: Nursery, tmp_path: Path, ended: int
) -> None:
    others = [number for number in range(3) if number != ended]
    crowd = [f"before the effect of tool_{number} #1" for number in others]
    crowd.append("after the commit of end of a call, finished #1")
    assert nursery.live("tools", tmp_path, crowd=crowd, mode="PARALLEL_SUBSCRIBE") == KILLED
    diary = Diary(tmp_path)
    assert [line[0] for line in diary.read("effects")] == [f"tool_{ended}"]
    with Runner(planned_app(diary, Points(diary)), log=tmp_path / "log", config=SUBSCRIBE) as runner:
        (result,) = recovered(runner)
    assert result.status is RunStatus.COMPLETED
    assert Counter(line[0] for line in diary.read("effects")) == {"tool_0": 1, "tool_1": 1, "tool_2": 1}
    assert diary.read("asked")[1:] == [["agent", [{"times": 1}] * 3]]


@pytest.mark.scenario("C1")
def test_of_async_calls_at_once_the_one_that_had_ended_is_not_made_again() -> None:
    made, waits = list[tuple[str, str]](), True

    def tool(name: str) -> Any:
        async def work(tool_context: ToolContext) -> str:
            made.append((name, tool_context.function_call_id))
            if waits and name != "b":
                await asyncio.Event().wait()
            return name

        work.__name__ = name
        return work

    log, tools = MemoryEventLog(), [tool(name) for name in "abc"]
    turn = calls(("a", {}), ("b", {}), ("c", {}))
    runner = Runner(resumable(ScriptedModel(turn), *tools), log=log)
    runner.run(**KEY, message="go").start()
    until(lambda: len(made) == 3 and any(record.kind == Kind.CALL_FINISHED for record in records(log)))
    runner.close(grace=0)
    waits, model = False, ScriptedModel("done")
    with Runner(resumable(model, *tools), log=log) as runner:
        assert [result.text for result in recovered(runner)] == ["done"]
    assert Counter(name for name, _ in made) == {"a": 2, "b": 1, "c": 2}
    assert len(set(made)) == 3  # under the same ids
    assert responses(model.requests[0]) == [{"result": name} for name in "abc"]


@pytest.mark.long
@pytest.mark.scenario("C4")
def test_a_tools_process_dies_with_its_runners_and_the_call_is_made_again_in_another(
    nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.live("in process", tmp_path) == KILLED
    with Runner(in_process_app(ScriptedModel("done")), log=tmp_path / "log") as runner:
        (result,) = recovered(runner)
        told = [dict(one.response) for event in result.events for one in event.function_responses]
    assert (result.status, told) == (RunStatus.COMPLETED, [{"times": 2}])
    (first, first_pid), (second, second_pid) = Diary(tmp_path).read("effects")
    assert first == second
    assert first_pid != second_pid
    until_ended(first_pid)


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_was_approved_is_not_made_again_when_the_model_fails_behind_it(times: int) -> None:
    sent: list[str] = []

    def send() -> str:
        sent.append("sent")
        return "sent"

    model = ScriptedModel(calls(("send", {})), *[error("service", "it is down")] * times, default="done")
    log = MemoryEventLog()
    with Runner(resumable(model, FunctionTool(send, require_confirmation=True)), log=log) as runner:
        (pending,) = runner.run(**KEY, message="Send it.").result(PATIENCE).pending
        run = runner.resume(**KEY, answers=[pending.approve()])
        for _ in range(times):
            with pytest.raises(ModelError, match="it is down"):
                run.answer(PATIENCE)
            assert (runner.pending(**KEY), left(runner)) == ([], [])  # it has failed: only its id goes on
            again = runner.resume(**KEY, answers=[pending.approve()])
            assert list(again) == []
            run = runner.resume(**KEY, invocation_id=pending.invocation_id)
        assert run.answer(PATIENCE) == "done"
    assert sent == ["sent"]
    assert [responses(request)[-1:] for request in model.requests[1:]] == [[{"result": "sent"}]] * (times + 1)
    assert [record.kind for record in records(log)].count(Kind.ANSWER) == 1


def test_a_call_whose_result_was_an_error_is_not_made_again() -> None:
    gate, made = Gate(), list[str]()

    def pay() -> str:
        made.append("pay")
        raise ValueError("no such card")

    def ship() -> str:
        made.append("ship")
        gate.wait()
        return "shipped"

    log, turn = MemoryEventLog(), calls(("pay", {}), ("ship", {}))
    runner = Runner(resumable(ScriptedModel(turn), pay, ship), log=log)
    run = runner.run(**KEY, message="go").start()
    gate.arrived()
    runner.close(grace=0)
    gate.open()
    assert run.wait_terminated(PATIENCE)
    model = ScriptedModel("done")
    with Runner(resumable(model, pay, ship), log=log) as runner:
        assert [result.text for result in recovered(runner)] == ["done"]
    assert made == ["pay", "ship", "ship"]
    paid, shipped = responses(model.requests[0])
    assert paid["status"] == "error"
    assert shipped == {"result": "shipped"}


@pytest.mark.scenario("F6")
def test_a_call_that_took_too_long_is_not_made_again_by_who_goes_on_with_its_run(tmp_path: Path) -> None:
    """It has its end in the log, and that says that its outcome is unknown."""
    slow, held, clock = Gate(), Gate(), ManualClock()
    effects: list[str] = []

    def pay() -> str:
        effects.append("paid")
        slow.wait()
        return "paid"

    def ship() -> str:
        effects.append("shipped")
        held.wait()
        return "shipped"

    def app(model: ScriptedModel) -> App:
        return resumable(model, FunctionTool(pay, timeout=5), ship)

    log = LmdbEventLog(tmp_path / "log", sync=False)
    runner = Runner(app(ScriptedModel(calls(("pay", {}), ("ship", {})))), log=log, clock=clock)
    run = runner.run(**KEY, message="go").start()
    slow.arrived()
    clock.advance(5)
    held.arrived()
    runner.close(grace=0)
    assert run.status is RunStatus.INTERRUPTED
    slow.open()
    held.open()
    assert run.wait_terminated(PATIENCE)
    log.close()
    model = ScriptedModel("done")
    with Runner(app(model), log=tmp_path / "log") as runner:
        assert [result.text for result in recovered(runner)] == ["done"]
    assert effects == ["paid", "shipped", "shipped"]
    paid, shipped = responses(model.requests[0])
    assert (paid["status"], paid["outcome"]) == ("timeout", "unknown")
    assert shipped == {"result": "shipped"}


@pytest.mark.scenario("C26")
def test_a_new_message_behind_a_cancel_is_a_new_run_and_the_cancelled_one_is_gone_on_with_by_its_id() -> None:
    gate, ids = Gate(), list[str]()

    def charge(tool_context: ToolContext) -> str:
        ids.append(tool_context.function_call_id)
        gate.wait()
        return "charged"

    model = ScriptedModel(calls(("charge", {})), "Never mind.", text("Charged after all."))
    with Runner(resumable(model, charge), log=MemoryEventLog()) as runner:
        old = runner.run(**KEY, message="Charge it.").start()
        gate.arrived()
        old.cancel("wait")
        assert old.result(PATIENCE).status is RunStatus.CANCELLED
        new = runner.run(**KEY, message="Do not.")
        assert new.answer(PATIENCE) == "Never mind."
        assert new.invocation_id != old.invocation_id
        (told,) = responses(model.requests[1])
        assert told["outcome"] == "unknown"
        assert len(ids) == 1  # nobody has made it again
        gate.open()
        assert old.wait_terminated(PATIENCE)
        again = runner.resume(**KEY, invocation_id=old.invocation_id)
        assert again.answer(PATIENCE) == "Charged after all."
        assert again.invocation_id == old.invocation_id
        assert status_of(runner) == ["completed", "completed"]
    assert ids == ids[:1] * 2  # on purpose, and under the same id
    assert {"result": "charged"} in responses(model.requests[2])
    assert [contents_problems(request.contents) for request in model.requests] == [[]] * 3


def test_the_time_limit_of_a_run_begins_anew_when_it_is_gone_on_with() -> None:
    clock, log, config = ManualClock(), MemoryEventLog(), RunConfig(timeout=10)
    for over in (False, False, True):
        gate = Gate()
        app = resumable(ScriptedModel(text(gate, "late")))
        with Runner(app, log=log, clock=clock, config=config) as runner:
            (run,) = runner.recover() or [runner.run(**KEY, message="go")]
            run.start()
            gate.arrived()
            clock.advance(8)
            assert run.status is None
            if over:
                clock.advance(2)
                assert run.result(PATIENCE).status is RunStatus.EXPIRED
            runner.close(grace=0)
            gate.open()
