"""What a stop does to a run: it ends after the step in hand, with everything in order."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from apps import KEY, app_of, app_with, records
from intermission import AgentContext, BaseAgent, Content, Run, RunConfig, Runner, RunStatus, ToolContext
from intermission.agents.effects import Call, Fork, Steps
from intermission.config import ToolExecution
from intermission.models import ModelRequest, ModelResponse
from intermission.runs.result import CancelSource, RunResult
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import MemoryEventLog
from loops import PATIENCE

SEQUENTIAL = RunConfig(tool_execution=ToolExecution.SEQUENTIAL, streaming=True)
NOT_RUN = {"status": "not_run", "outcome": "not_started", "message": "not run, stopped: enough"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def assert_stopped(log: MemoryEventLog | FaultyLog, run: Run, reason: str = "enough") -> RunResult:
    """Assert that a run ended `stopped`, for a kept reason, with a last event and all calls answered."""
    result = run.result(PATIENCE)
    assert (result.status, result.reason, result.error) == (RunStatus.STOPPED, reason, None)
    end = records(log)[-1]
    assert (end.kind, end.data["status"], end.data["reason"]) == ("run_ended", "stopped", reason)
    last = result.events[-1]
    assert (last.error_code, last.turn_complete) == ("stopped", True)
    assert_answered(result)
    return result


def assert_answered(result: RunResult) -> None:
    """Assert that the calls of a run are answered in their order."""
    made = [call.id for event in result.events for call in event.function_calls]
    assert made == [one.id for event in result.events for one in event.function_responses]


def assert_legal(request: ModelRequest) -> None:
    """Assert that each content with calls is followed by their responses."""
    contents = [*request.contents, Content("user", ())]
    for content, after in pairwise(contents):
        made = [part.function_call.id for part in content.parts if part.function_call]
        assert made == ([one.id for one in after.function_responses] if made else [])


def test_a_stop_during_the_last_step_leaves_nothing_out_and_the_run_ends_completed(gate: Gate) -> None:
    model = ScriptedModel(text("all", gate, " of it"))
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.stop("enough")
        gate.open()
        result = run.result(PATIENCE)
    assert (result.status, result.text, result.reason) == (RunStatus.COMPLETED, "all of it", "")


def test_a_stop_during_a_model_call_keeps_what_the_model_says_and_runs_none_of_its_tools(gate: Gate) -> None:
    class Held(ScriptedModel):
        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            answer = super().generate(request)
            gate.wait()
            return answer

    ran, log = list[str](), MemoryEventLog()

    def work() -> str:
        ran.append("work")
        return "worked"

    model = Held(calls(("work", {})), default="ok")
    with Runner(app_with(model, work), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.stop("enough")
        gate.open()
        result = assert_stopped(log, run)
        (response,) = [one for event in result.events for one in event.function_responses]
        assert response.response == NOT_RUN
        assert ran == []
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert len(model.requests) == 2
    assert_legal(model.requests[-1])


def test_a_stop_while_a_model_says_its_last_word_leaves_that_word_whole(gate: Gate) -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(text("Hel", gate, "lo"))), log=log, config=SEQUENTIAL) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.stop("enough")
        gate.open()
        result = run.result(PATIENCE)
    assert (result.text, result.status) == ("Hello", RunStatus.COMPLETED)


@pytest.mark.parametrize("how", ["the caller", "the tool", "by key"])
def test_a_stop_during_the_first_of_three_calls_lets_it_end_and_answers_the_others(
    how: str, gate: Gate
) -> None:
    ran, log = list[int](), MemoryEventLog()

    def work(number: int, tool_context: ToolContext) -> str:
        ran.append(number)
        gate.wait()
        if how == "the tool":
            tool_context.stop("enough")
        return "worked"

    model = ScriptedModel(calls(*[("work", {"number": number}) for number in range(3)]), default="ok")
    with Runner(app_with(model, work), log=log, config=SEQUENTIAL) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        if how == "the caller":
            run.stop("enough")
        elif how == "by key":
            runner.stop(**KEY, invocation_id=run.invocation_id, reason="enough")
        gate.open()
        result = assert_stopped(log, run)
        responses = [one.response for event in result.events for one in event.function_responses]
        assert responses == [{"result": "worked"}, NOT_RUN, NOT_RUN]
        assert ran == [0]
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert len(model.requests) == 2
    assert_legal(model.requests[-1])


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "queued"])
def test_a_run_that_is_stopped_before_it_begins_asks_no_model(cold: bool, gate: Gate) -> None:
    log, model = MemoryEventLog(), ScriptedModel(text(gate, "first"), default="ok")
    with Runner(app_with(model), log=log) as runner:
        first = runner.run(**KEY, message="a").start()
        gate.arrived()
        run = runner.run(**KEY, message="b")
        if not cold:
            run.start()
        run.stop("enough")
        run.stop("once more")
        run.start()
        gate.open()
        assert_stopped(log, run)
        assert (first.answer(PATIENCE), len(model.requests)) == ("first", 1)
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert_legal(model.requests[-1])


def test_a_run_that_is_to_stop_can_still_be_cancelled(gate: Gate) -> None:
    def work() -> str:
        gate.wait()
        return "worked"

    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(calls(("work", {})), default="ok"), work), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.stop("enough")
        assert run.cancel("now").accepted
        result = run.result(PATIENCE)
        assert (result.status, result.reason) == (RunStatus.CANCELLED, "now")
        assert run.cancel_report is not None
        assert run.cancel_report.source is CancelSource.CALLER
        gate.open()
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"
    assert [record.data["status"] for record in records(log) if record.kind == "run_ended"] == [
        *("cancelled", "completed"),
    ]


def test_a_cancel_while_the_end_of_a_stopped_run_is_stored_comes_too_late() -> None:
    log = FaultyLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        commit = log.hold("run_ended")
        run = runner.run(**KEY, message="hi")
        run.stop("enough")
        run.begin()
        commit.arrived()
        assert run.cancel().already_ending
        commit.open()
        assert_stopped(log, run)


def test_a_stop_of_a_run_that_has_ended_changes_nothing() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(default="ok")), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        run.result(PATIENCE)
        run.stop("enough")
        assert (run.status, run.result(0).reason) == (RunStatus.COMPLETED, "")
        assert runner.run(**KEY, message="next").answer(PATIENCE) == "ok"


class Working(BaseAgent):
    """Waits at a gate, then does another step, which a stop keeps it from."""

    def __init__(self, name: str, gate: Gate, step: Callable[[], object]) -> None:
        super().__init__(name)
        self.gate, self.step = gate, step

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield Call(self.gate.wait)
        yield context.event(self.name, content=Content.model("waited"))
        yield Fork((Stepping("step", self.step),))


class Stepping(BaseAgent):
    """Does a step."""

    def __init__(self, name: str, step: Callable[[], object]) -> None:
        super().__init__(name)
        self.step = step

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        self.step()
        yield context.event(self.name, content=Content.model("stepped"))


class Forking(BaseAgent):
    """Runs two agents on branches of their own."""

    def __init__(self, *agents: BaseAgent) -> None:
        super().__init__("forking")
        self.agents = agents

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield Fork(self.agents)
        yield context.event(self.name, content=Content.model("never"))


def test_a_stop_in_one_of_two_branches_lets_both_end_their_steps_and_begins_no_other(gate: Gate) -> None:
    steps, log = list[str](), MemoryEventLog()
    runs: list[Run] = []

    def stop() -> None:
        gate.wait()
        runs[0].stop("enough")

    class Stopping(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield Call(stop)
            yield context.event(self.name, content=Content.model("asked"))
            second.open()
            yield Fork((Stepping("step", lambda: steps.append("one")),))

    second = Gate()
    agent = Forking(Stopping("one"), Working("two", second, lambda: steps.append("two")))
    with Runner(app_of(agent), log=log) as runner:
        runs.append(runner.run(**KEY, message="hi").start())
        gate.arrived()
        second.arrived()
        gate.open()
        result = assert_stopped(log, runs[0])
    assert steps == []
    assert {event.text for event in result.events[1:-1]} == {"asked", "waited"}
    assert result.events[-1].author == "forking"
