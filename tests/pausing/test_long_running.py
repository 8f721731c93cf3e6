"""Calls whose result comes from outside."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps import KEY, app_of, records
from intermission import (
    FunctionResponse,
    LlmAgent,
    LongRunningFunctionTool,
    PendingKind,
    RunConfig,
    Runner,
    RunStatus,
    ToolExecution,
)
from intermission.testing import calls
from intermission_storage import Kind, MemoryEventLog
from pausing import LEGACY, PATIENCE, WAIT, Story, llm, model_of, reply_to, resumable, waiting, words

MODES = list(dict.fromkeys(ToolExecution))


def heard(agent: LlmAgent, request: int = -1) -> Sequence[FunctionResponse]:
    """The responses at the end of what the agent's model was asked."""
    return model_of(agent).requests[request].contents[-1].function_responses


def ticket(begun: list[str] | None = None) -> LongRunningFunctionTool:
    """A tool that says at once what there is, and may be answered later."""

    def order(n: int = 1) -> dict[str, Any]:
        """Order something."""
        if begun is not None:
            begun.append("order")
        return {"status": "pending", "ticket": n}

    return LongRunningFunctionTool(order)


def test_where_runs_do_not_pause_a_call_without_a_result_ends_the_turn_and_one_with_it_is_summed_up() -> None:
    for agent, seen in (
        (waiting("A"), ["A calls wait"]),
        (
            llm("A", calls(("order", {})), tools=[ticket()]),
            ["A calls order", "A hears order", "A says A is done"],
        ),
    ):
        with Runner(app_of(agent), log=MemoryEventLog()) as runner:
            run = runner.run(**KEY, message="hi")
            assert [words(event) for event in run] == seen
            assert run.result(PATIENCE).status is RunStatus.COMPLETED
        assert len(model_of(agent).requests) == (1 if len(seen) == 1 else 2)


def test_a_turn_of_nothing_but_a_long_running_call_leaves_the_output_key_as_it_was() -> None:
    agent = waiting("A", output_key="said")
    with Story(agent) as story:
        story.say(state_delta={"said": "before"})
        assert story.runner.sessions.get(**KEY).state["said"] == "before"
        story.answer(*story.pending)
        assert story.runner.sessions.get(**KEY).state["said"] == "A is done"


def test_where_runs_do_not_pause_each_later_result_is_one_model_call_and_the_tool_is_called_once() -> None:
    begun = list[str]()
    agent = llm("A", calls(("order", {})), "1", "2", "3", "4", tools=[ticket(begun)])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert [words(event) for event in run] == ["A calls order", "A hears order", "A says 1"]
        assert len(model_of(agent).requests) == 2
        call = run.result(PATIENCE).events[1].function_calls[0]
        for number, status in ((2, "waiting"), (3, "done"), (4, "done")):
            answer = reply_to(call.id, {"status": status}, "order")
            assert [words(event) for event in runner.run(**KEY, message=answer)] == [f"A says {number}"]
            assert len(model_of(agent).requests) == number + 1
            assert [each.response for each in heard(agent)] == [{"status": status}]
    assert begun == ["order"]


def test_a_call_that_has_its_result_at_once_is_summed_up_in_the_same_turn_and_the_agent_ends() -> None:
    agent = llm("A", calls(("order", {})), tools=[ticket()])
    with Story(agent) as story:
        assert story.say() == ["A calls order", "A hears order", "A says A is done", "A ends"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
        call = story.events[1].function_calls[0]

        before = story.position
        assert story.say(reply_to(call.id, name="order")) == []
        assert (story.result.status, story.position) == (RunStatus.COMPLETED, before)
    assert len(model_of(agent).requests) == 2


def test_what_waits_is_told_with_its_tool_its_arguments_and_since_when() -> None:
    with Story(waiting("A", times=2)) as story:
        story.say()
        first, second = story.pending
        event = story.events[-1]
        assert [call.arguments for call in (first, second)] == [{"n": 0}, {"n": 1}]
        assert story.result.pending == (first, second)
    assert (first.kind, first.tool, first.agent, first.branch) == (
        PendingKind.LONG_RUNNING,
        "wait",
        "A",
        None,
    )
    assert first.id == first.function_call_id == event.function_calls[0].id
    assert (first.since, first.invocation_id) == (event.timestamp, event.invocation_id)
    assert event.long_running_tool_ids == (first.id, second.id)


def test_the_pause_is_in_the_log_before_anybody_hears_of_it() -> None:
    seen = list[int]()
    with Story(waiting("A")) as story:
        run = story.runner.run(**KEY, message="hi")
        for event in run:
            stored = records(story.log)
            seen.append(stored[-1].seq)
            assert event.seq is not None
            assert event.seq <= stored[-1].seq
        assert run.result(PATIENCE).status is RunStatus.PAUSED
        assert records(story.log)[-1].kind == Kind.RUN_ENDED
        assert records(story.log)[-1].data["status"] == "paused"


def test_an_answer_becomes_the_result_that_the_model_hears() -> None:
    agent = waiting("A", times=2)
    with Story(agent) as story:
        story.say()
        first, second = story.pending
        story.answer(second.reply({"value": 2}, answered_by="bob"), first.reply({"value": 1}))
    assert [each.response for each in heard(agent)] == [{"value": 1}, {"value": 2}]
    answered = [record.data for record in records(story.log) if record.kind == Kind.ANSWER]
    assert [(data["callId"], data.get("answeredBy")) for data in answered] == [
        (second.id, "bob"),
        (first.id, None),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_of_a_mixed_turn_the_ordinary_calls_are_made_at_once_and_once(mode: ToolExecution) -> None:
    made = list[int]()

    def look(n: int) -> dict[str, int]:
        """Look."""
        made.append(n)
        return {"seen": n}

    turn = calls(("look", {"n": 1}), ("wait", {"n": 2}), ("look", {"n": 3}), ("wait", {"n": 4}))
    agent = llm("A", turn, tools=[look, WAIT])
    with Story(agent) as story:
        assert story.say(config=RunConfig(tool_execution=mode)) == [
            "A calls look wait look wait",
            "A hears look look",
        ]
        assert story.answer(story.pending[1].reply({"done": 4})) == []
        assert story.answer(story.pending[0].reply({"done": 2})) == ["A says A is done", "A ends"]
    assert sorted(made) == [1, 3]
    assert [each.response for each in heard(agent)] == [{"seen": 1}, {"done": 2}, {"seen": 3}, {"done": 4}]


def test_a_tool_that_waits_and_needs_leave_is_asked_about_first_and_then_waits() -> None:
    begun = list[int]()

    def ship(n: int) -> None:
        """Ship it."""
        begun.append(n)

    tool = LongRunningFunctionTool(ship, require_confirmation=True)
    agent = llm("A", calls(("ship", {"n": 7})), tools=[tool])
    with Story(agent) as story:
        story.say()
        (leave,) = story.pending
        assert (leave.kind, begun) == (PendingKind.CONFIRMATION, [])

        assert story.answer(leave) == []
        (result,) = story.pending
        assert (result.kind, result.id, begun) == (PendingKind.LONG_RUNNING, leave.function_call_id, [7])

        assert story.answer(result.reply({"at": "home"})) == ["A says A is done", "A ends"]
    assert begun == [7]
    assert [each.response for each in heard(agent)] == [{"at": "home"}]


def test_a_model_that_is_asked_meanwhile_hears_that_the_call_waits() -> None:
    agent = waiting("A")
    with Story(agent) as story:
        story.say()
        paused = story.result.invocation_id
        assert story.say("are you there?") == ["A says A is done", "A ends"]
        assert story.result.invocation_id != paused
        assert len(story.pending) == 1
    (response,) = model_of(agent).requests[-1].contents[-2].function_responses
    assert response.response["outcome"] == "pending"


def test_a_result_that_was_told_at_once_keeps_the_call_open_where_runs_pause_without_checkpoints() -> None:
    agent = llm("A", calls(("order", {})), tools=[ticket()])
    with Story(resumable(agent, config=LEGACY)) as story:
        assert story.say() == ["A calls order", "A hears order"]
        assert story.result.status is RunStatus.PAUSED
        (call,) = story.pending
        assert story.say(reply_to(call, {"status": "done"}, "order")) == ["A says A is done"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
    assert [each.response for each in heard(agent)] == [{"status": "done"}]


def test_a_call_of_a_tool_that_nobody_has_is_no_pause() -> None:
    agent = llm("A", calls(("gone", {})), tools=[WAIT])
    with Story(agent) as story:
        assert story.say() == ["A calls gone", "A hears gone", "A says A is done", "A ends"]
    assert story.result.status is RunStatus.COMPLETED
