"""The three modes of tool execution: what overlaps, in which order, and what the log holds when."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from apps import KEY, app_of, app_with, kinds, records
from async_gates import AsyncGate
from intermission import AgentContext, BaseAgent, Content, LlmAgent, RunConfig, Runner, RunStatus
from intermission.agents.effects import Steps, call_tools
from intermission.config import ToolExecution
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls
from intermission_storage import EventLog, Kind, MemoryEventLog, Record
from turns import PATIENCE, Bench, responses

ALL = list(dict.fromkeys(ToolExecution))
SEQUENTIAL = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
PARALLEL = RunConfig(tool_execution=ToolExecution.PARALLEL)
SUBSCRIBE = RunConfig(tool_execution=ToolExecution.PARALLEL_SUBSCRIBE)


def told(model: ScriptedModel) -> list[Any]:
    """What the model was told of its calls, in its last request; only the result where there is one."""
    return [response.get("result", response) for response in responses(model)]


def call_records(log: EventLog) -> list[tuple[str, str]]:
    """What the log says of calls, by the tools' arguments: `+a` begun, `-a` ended, `=` their event."""
    names: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for record in records(log):
        content: Any = record.data.get("content") or {"parts": []}
        for part in content["parts"]:
            if "functionCall" in part:
                names[part["functionCall"]["id"]] = part["functionCall"]["args"]["name"]
        if record.kind in {Kind.CALL_STARTED, Kind.CALL_FINISHED}:
            found.append((str(record.kind), names[record.data["callId"]]))
        elif "functionResponse" in str(record.data):
            found.append(("responses", ""))
    return found


@pytest.mark.scenario("J6")
def test_sequential_calls_begin_one_after_another_whatever_they_are() -> None:
    bench = Bench()
    runner, model = bench.runner("axb")
    bench.open("xb")
    with runner:
        run = runner.run(**KEY, message="hi", config=SEQUENTIAL).start()
        bench.blocking["a"].arrived()
        assert bench.order == ["+a"]
        bench.open("a")
        run.answer(PATIENCE)

    assert bench.order == ["+a", "-a", "+x", "-x", "+b", "-b"]
    assert told(model) == ["a", "x", "b"]


@pytest.mark.scenario("J6")
def test_parallel_calls_overlap_if_they_are_async_and_blocking_ones_follow_each_other() -> None:
    bench = Bench()
    runner, model = bench.runner("axbycz")
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        for name in "xyz":
            bench.waiting[name].arrived()
        bench.blocking["a"].arrived()
        assert (bench.blocking["b"].arrivals, bench.blocking["c"].arrivals) == (0, 0)
        bench.open("a")
        bench.blocking["b"].arrived()
        assert bench.blocking["c"].arrivals == 0
        bench.open("bczyx")
        run.answer(PATIENCE)

    blocking = [what for what in bench.order if what[1] in "abc"]
    assert blocking == ["+a", "-a", "+b", "-b", "+c", "-c"]
    assert told(model) == ["a", "x", "b", "y", "c", "z"]


@pytest.mark.scenario("J6")
def test_parallel_subscribe_calls_all_overlap() -> None:
    bench = Bench()
    runner, model = bench.runner("axbycz")
    with runner:
        run = runner.run(**KEY, message="hi", config=SUBSCRIBE).start()
        for name in "abc":
            bench.blocking[name].arrived()
        for name in "xyz":
            bench.waiting[name].arrived()
        bench.open("zcybxa")
        run.answer(PATIENCE)

    assert told(model) == ["a", "x", "b", "y", "c", "z"]


@pytest.mark.parametrize(
    ("config", "at_once"),
    [(SEQUENTIAL, ["b"]), (PARALLEL, ["b", "x", "y"]), (SUBSCRIBE, ["b", "x", "a", "y"])],
    ids=["sequential", "parallel", "subscribe"],
)
def test_the_calls_that_begin_at_once_are_stored_with_their_event_before_any_body_runs(
    config: RunConfig, at_once: list[str]
) -> None:
    bench, log, batch = Bench(), FaultyLog(), list[Record]()

    def is_calls(_: str, these: Sequence[Record]) -> bool:
        if not batch and these[-1].kind == Kind.CALL_STARTED:
            batch.extend(these)
            return True
        return False

    append = log.hold(is_calls)
    runner, _ = bench.runner("bxay", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        append.arrived()
        assert bench.order == []
        bench.open("abxy")
        append.open()
        run.answer(PATIENCE)
        args = {call.id: call.args["name"] for event in run.result().events for call in event.function_calls}

    assert batch[0].kind == Kind.EVENT
    assert [args[record.data["callId"]] for record in batch[1:]] == at_once


def test_a_call_that_begins_later_is_in_the_log_before_its_body_runs() -> None:
    bench, log = Bench(), FaultyLog()
    bench.open("a")

    def is_second(_: str, these: Sequence[Record]) -> bool:
        return [record.kind for record in these] == [Kind.CALL_FINISHED, Kind.CALL_STARTED]

    append = log.hold(is_second)
    runner, _ = bench.runner("ab", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        append.arrived()
        assert bench.order == ["+a", "-a"]
        bench.open("b")
        append.open()
        run.answer(PATIENCE)


def test_an_async_call_that_has_ended_is_in_the_log_with_its_response_while_others_run() -> None:
    bench, log = Bench(), FaultyLog()
    finished = log.hold(Kind.CALL_FINISHED)
    runner, _ = bench.runner("xay", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        bench.waiting["y"].arrived()
        bench.blocking["a"].arrived()
        bench.open("x")
        finished.arrived()
        finished.open()
        bench.open("ay")
        run.answer(PATIENCE)
        found = [record for record in records(log) if record.kind == Kind.CALL_FINISHED]

    assert found[0].data["response"] == {"result": "x"}
    assert found[0].data["outcome"] == "finished"


def test_a_blocking_call_that_has_ended_is_in_the_log_while_async_ones_run() -> None:
    bench, log = Bench(), FaultyLog()
    finished = log.hold(Kind.CALL_FINISHED)
    runner, _ = bench.runner("xa", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        bench.open("a")
        finished.arrived()
        assert "-x" not in bench.order
        finished.open()
        bench.open("x")
        run.answer(PATIENCE)
        found = [record for record in records(log) if record.kind == Kind.CALL_FINISHED]

    assert found[0].data["response"] == {"result": "a"}
    assert "response" not in found[1].data


@pytest.mark.parametrize("config", [SEQUENTIAL, PARALLEL, SUBSCRIBE], ids=["one", "par", "sub"])
def test_each_call_begins_and_ends_once_in_the_log_before_the_responses(config: RunConfig) -> None:
    bench, log = Bench(), MemoryEventLog()
    bench.open("abxy")
    runner, _ = bench.runner("axby", log)
    with runner:
        runner.run(**KEY, message="hi", config=config).answer(PATIENCE)
        found = call_records(log)

    assert found[-1] == ("responses", "")
    for name in "axby":
        assert found.index(("call_started", name)) < found.index(("call_finished", name))
    assert len(found) == 9


def test_blocking_calls_in_parallel_mode_cost_no_more_batches_than_one_by_one() -> None:
    counts = list[int]()
    for config in (SEQUENTIAL, PARALLEL):
        bench, log = Bench(), FaultyLog()
        bench.open("abc")
        runner, _ = bench.runner("abc", log)
        with runner:
            runner.run(**KEY, message="hi", config=config).answer(PATIENCE)
            counts.append(log.batches)

    assert counts[0] == counts[1]


@pytest.mark.parametrize("config", [SEQUENTIAL, PARALLEL], ids=["one", "par"])
def test_a_stop_lets_calls_that_have_begun_end_and_answers_the_others(config: RunConfig) -> None:
    bench, log = Bench(), MemoryEventLog()
    runner, _ = bench.runner("axb", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=config).start()
        bench.blocking["a"].arrived()
        if config is PARALLEL:
            bench.waiting["x"].arrived()
        run.stop("enough")
        bench.open("ax")
        result = run.result(PATIENCE)
        answers = [response.response for event in result.events for response in event.function_responses]

    assert result.status is RunStatus.STOPPED
    assert answers[0] == {"result": "a"}
    assert (answers[1] == {"result": "x"}) is (config is PARALLEL)
    assert answers[2] == {
        "status": "not_run",
        "outcome": "not_started",
        "message": "not run, stopped: enough",
    }
    assert "+b" not in bench.order


def test_a_stop_lets_all_calls_of_parallel_subscribe_end() -> None:
    bench = Bench()
    runner, _ = bench.runner("axb")
    with runner:
        run = runner.run(**KEY, message="hi", config=SUBSCRIBE).start()
        for name in "ab":
            bench.blocking[name].arrived()
        bench.waiting["x"].arrived()
        run.stop()
        bench.open("axb")
        result = run.result(PATIENCE)
        answers = [response.response for event in result.events for response in event.function_responses]

    assert result.status is RunStatus.STOPPED
    assert answers == [{"result": "a"}, {"result": "x"}, {"result": "b"}]


def test_a_call_that_the_log_says_begins_and_a_stop_keeps_from_it_ends_there_as_not_started() -> None:
    bench, log = Bench(), FaultyLog()
    append = log.hold(lambda _, these: these[-1].kind == Kind.CALL_STARTED)
    runner, _ = bench.runner("ax", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        append.arrived()
        run.stop()
        append.open()
        assert run.result(PATIENCE).status is RunStatus.STOPPED
        found = [record.data["outcome"] for record in records(log) if record.kind == Kind.CALL_FINISHED]

    assert found == ["not_started", "not_started"]
    assert bench.order == []


def test_a_cancel_of_one_blocking_call_in_parallel_mode_lets_the_next_one_begin() -> None:
    bench = Bench()
    runner, model = bench.runner("axb")
    with runner:
        run = runner.run(**KEY, message="hi", config=PARALLEL).start()
        bench.blocking["a"].arrived()
        first = runner.sessions.events(**KEY)[-1].function_calls[0]
        assert run.cancel_call(first.id)
        bench.blocking["b"].arrived()
        bench.open("bx")
        run.answer(PATIENCE)
        bench.open("a")
        assert run.wait_terminated(PATIENCE)

    assert told(model)[0]["status"] == "stopped"
    assert told(model)[1:] == ["x", "b"]


@pytest.mark.parametrize("mode", ALL)
def test_a_cancel_ends_a_turn_of_any_mode_and_all_its_work(mode: ToolExecution) -> None:
    bench, log = Bench(), MemoryEventLog()
    runner, _ = bench.runner("xay", log)
    with runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode)).start()
        bench.waiting["x"].arrived()
        run.cancel()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        bench.open("a")
        assert run.wait_terminated(PATIENCE)

    assert kinds(log)[-1] == "run_ended"
    assert "-x" not in bench.order


def test_in_parallel_mode_a_blocking_tool_waits_for_the_async_hooks_of_the_one_before_it() -> None:
    order: list[str] = []
    gate, never = AsyncGate(), threading.Event()

    async def before(tool: Any, args: dict[str, Any], context: Any) -> None:
        await gate.wait()

    def note(name: str) -> str:
        order.append(f"+{name}")
        never.wait(0.01)  # for the other one, if it does not wait for this
        order.append(f"-{name}")
        return name

    model = ScriptedModel(calls(("note", {"name": "a"}), ("note", {"name": "b"})), "done")
    agent = LlmAgent("agent", model, tools=[note], before_tool_callback=before)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        gate.open()
        assert run.answer(PATIENCE) == "done"

    assert order == ["+a", "-a", "+b", "-b"]


@pytest.mark.scenario("J6")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("mode", ALL)
def test_blocking_calls_take_the_longest_of_their_times_if_all_overlap_and_else_the_sum(
    mode: ToolExecution, count: int
) -> None:
    gate, inside = Gate(), list[int]()
    all_at_once = mode is ToolExecution.PARALLEL_SUBSCRIBE

    def block(number: int) -> int:
        inside.append(number)
        gate.wait()
        return number

    model = ScriptedModel(calls(*(("block", {"number": number}) for number in range(count))), "done")
    with Runner(app_with(model, block), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode)).start()
        gate.arrived(count if all_at_once else 1)
        together = len(inside)
        gate.open()
        run.answer(PATIENCE)

    assert together == (count if all_at_once else 1)
    assert told(model) == list(range(count))


def test_a_turn_without_calls_has_no_responses_and_leaves_nothing_in_the_log() -> None:
    answers: list[object] = []

    class Idle(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            answers.append((yield from call_tools([], {})))
            yield context.event(self.name, content=Content.model("done"))

    log = MemoryEventLog()
    with Runner(app_of(Idle("idle")), log=log) as runner:
        for mode in ALL:
            runner.run(**KEY, message="hi", config=RunConfig(tool_execution=mode)).answer(PATIENCE)

    assert answers == [()] * len(ALL)
    assert kinds(log).count("event") == 2 * len(ALL)
