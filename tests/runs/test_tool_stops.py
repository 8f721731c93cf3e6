"""Calls of a turn that are stopped before they begin, or given up: the others are not touched."""

import pytest

from apps import KEY, app_with
from intermission import RunConfig, Runner, RunStatus, ToolContext
from intermission.config import ToolExecution
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from turns import PATIENCE, Bench, answers, assert_legal, responses

SEQUENTIAL = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
PARALLEL = RunConfig(tool_execution=ToolExecution.PARALLEL)
SUBSCRIBE = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)


@pytest.mark.scenario("A12")
def test_a_stop_by_the_first_of_five_tools_keeps_the_others_from_beginning() -> None:
    effects = list[str]()

    def step(name: str, tool_context: ToolContext) -> str:
        effects.append(name)
        tool_context.stop("that will do")
        return name

    model = ScriptedModel(calls(*(("step", {"name": name}) for name in "abcde")), "again")
    with Runner(app_with(model, step), log=MemoryEventLog(), config=SEQUENTIAL) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "again"

    assert (result.status, result.reason, effects) == (RunStatus.STOPPED, "that will do", ["a"])
    first, *others = answers(result)
    assert first == {"result": "a"}
    assert (
        others
        == [{"status": "not_run", "outcome": "not_started", "message": "not run, stopped: that will do"}] * 4
    )
    assert_legal(model.requests[-1])


@pytest.mark.scenario("A14")
@pytest.mark.parametrize("config", [PARALLEL, SUBSCRIBE], ids=["parallel", "subscribe"])
def test_the_middle_one_of_three_calls_is_cancelled_and_the_others_are_answered(config: RunConfig) -> None:
    bench = Bench()
    runner, model = bench.runner("xay")
    with runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        for gate in (bench.waiting["x"], bench.blocking["a"], bench.waiting["y"]):
            gate.arrived()
        _, middle, _ = runner.sessions.events(**KEY)[-1].function_calls
        assert run.cancel_call(middle.id, "not this one")
        bench.open("xy")
        run.answer(PATIENCE)
        bench.open("a")
        assert run.wait_terminated(PATIENCE)

    first, second, third = responses(model)
    assert (first, third) == ({"result": "x"}, {"result": "y"})
    assert (second["status"], second["outcome"]) == ("stopped", "unknown")
    assert "not this one" in second["message"]
    assert len(model.requests) == 2
    assert_legal(model.requests[-1])
