"""The limits of runs: times, workers, places in line, and a log that fails."""

from collections.abc import Callable, Iterator

import pytest

from apps import KEY, app_with, kinds, records
from intermission import Run, RunConfig, Runner, RunStatus, RunTimeoutError
from intermission.config import ToolExecution
from intermission.runs.result import CancelSource
from intermission.testing import FaultyLog, Gate, ManualClock, ScriptedModel, calls, text
from intermission_storage import LogFullError, MemoryEventLog
from loops import PATIENCE
from pools import until


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def working(gate: Gate) -> Callable[[], str]:
    """A tool that waits at a gate."""

    def work() -> str:
        gate.wait()
        return "worked"

    return work


@pytest.mark.parametrize("where", ["queued", "in a model call", "in a tool"])
def test_a_run_beyond_its_time_expires_wherever_it_is_and_iterating_it_raises(where: str, gate: Gate) -> None:
    log, clock = MemoryEventLog(), ManualClock()
    model = ScriptedModel(calls(("work", {})) if where == "in a tool" else text(gate, "Hello"), default="ok")
    with Runner(app_with(model, working(gate)), log=log, clock=clock) as runner:
        first = runner.run(**KEY, message="first") if where == "queued" else None
        if first is not None:
            first.start()
            gate.arrived()
        run = runner.run(**KEY, message="hi", config=RunConfig(timeout=10)).start()
        gate.arrived()
        clock.advance(9.5)
        assert run.status is None
        clock.advance(0.5)
        with pytest.raises(RunTimeoutError):
            list(run)
        with pytest.raises(RunTimeoutError):
            run.answer(PATIENCE)
        assert run.status is RunStatus.EXPIRED
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.DEADLINE
        gate.open()
        assert first is None or first.answer(PATIENCE) == "Hello"
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    ends = [record.data["status"] for record in records(log) if record.kind == "run_ended"]
    assert ends == (["completed"] if where == "queued" else ["expired"]) + ["completed"]


def test_a_run_that_ends_in_time_is_left_alone_by_its_limit() -> None:
    clock = ManualClock()
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(timeout=10))
        assert run.answer(PATIENCE) == "ok"
        clock.advance(100)
        assert (run.status, run.cancel_report) == (RunStatus.COMPLETED, None)


def test_the_late_result_of_a_call_beyond_its_time_is_dropped(gate: Gate) -> None:
    log, clock = MemoryEventLog(), ManualClock()
    model = ScriptedModel(calls(("work", {})), "done")
    config = RunConfig(tool_timeout=10)
    with Runner(app_with(model, working(gate)), log=log, clock=clock, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        clock.advance(10)
        assert run.answer(PATIENCE) == "done"
        (piece,) = runner.residual()
        assert (piece.what, piece.name, piece.invocation_id) == ("tool", "work", run.invocation_id)
        before = len(records(log))
        assert not run.wait_terminated(0)
        gate.open()
        assert run.wait_terminated(PATIENCE)
        assert (runner.residual(), len(records(log))) == ([], before)
    (response,) = [one for event in model.requests[1].contents for one in event.function_responses]
    assert (response.response["status"], response.response["outcome"]) == ("timeout", "unknown")


def test_a_run_that_gets_no_worker_in_time_is_cancelled_as_an_overload(gate: Gate) -> None:
    clock = ManualClock()
    model = ScriptedModel(text(gate, "Hello"), default="ok")
    with Runner(app_with(model), log=MemoryEventLog(), clock=clock, workers=1, worker_wait=5) as runner:
        first = runner.run(user_id="u", session_id="first", message="hi").start()
        gate.arrived()
        run = runner.run(**KEY, message="hi").start()
        wait_for_line(runner)
        clock.advance(5)
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.OVERLOAD
        gate.open()
        assert first.answer(PATIENCE) == "Hello"
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


def test_a_run_that_waits_for_a_worker_while_its_runner_closes_is_terminated_though_none_came(
    gate: Gate,
) -> None:
    model = ScriptedModel(text(gate, "Hello"), default="ok")
    runner = Runner(app_with(model), log=MemoryEventLog(), workers=1)
    first = runner.run(user_id="u", session_id="first", message="hi").start()
    gate.arrived()
    run = runner.run(**KEY, message="hi").start()
    wait_for_line(runner)
    runner.close(0)
    assert run.result(0).status is RunStatus.CANCELLED
    assert run.wait_terminated(PATIENCE)
    assert {work.invocation_id for work in runner.residual()} == {first.invocation_id}
    gate.open()
    assert first.wait_terminated(PATIENCE)


def test_a_call_that_gets_no_worker_in_time_is_not_begun_and_the_model_is_told(gate: Gate) -> None:
    begun, clock = list[int](), ManualClock()

    def work(number: int) -> str:
        begun.append(number)
        gate.wait()
        return "worked"

    model = ScriptedModel(calls(*[("work", {"number": number}) for number in range(2)]), "done")
    config = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)
    log = MemoryEventLog()
    with Runner(
        app_with(model, work), log=log, clock=clock, config=config, workers=1, worker_wait=5
    ) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        wait_for_line(runner)
        clock.advance(5)
        gate.open()
        assert run.answer(PATIENCE) == "done"
    responses = [one.response for event in model.requests[1].contents for one in event.function_responses]
    assert responses[0] == {"result": "worked"}
    assert (responses[1]["status"], responses[1]["outcome"]) == ("overload", "not_started")
    assert begun == [0]


def wait_for_line(runner: Runner) -> None:
    """Wait until a job stands in line for a worker."""
    workers = runner._services.workers  # pyright: ignore[reportPrivateUsage]  # there is no other way to see it
    until(lambda: workers.waiting > 0)


@pytest.mark.scenario("D12")
@pytest.mark.parametrize("kind", ["event", "call_finished", "run_ended"])
def test_a_run_whose_log_fails_ends_failed_with_the_logs_error_and_the_next_one_works(kind: str) -> None:
    log = FaultyLog()

    def work() -> str:
        return "worked"

    model = ScriptedModel(calls(("work", {})), default="ok")
    with Runner(app_with(model, work), log=log) as runner:
        log.refuse(lambda _, these: any(one.kind == kind for one in these), LogFullError("no room"))
        run: Run = runner.run(**KEY, message="hi")
        with pytest.raises(LogFullError, match="no room"):
            list(run)
        with pytest.raises(LogFullError, match="no room"):
            run.answer(PATIENCE)
        assert run.status is RunStatus.FAILED
        assert runner.run(**KEY, message="next").result(PATIENCE).status is RunStatus.COMPLETED
    assert kinds(log).count("run_started") == kinds(log).count("run_ended")
