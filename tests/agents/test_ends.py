"""How an agent's turn ends, and what the next one finds."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps import KEY, app_of, app_with, records
from children import Child
from desk import assert_legal
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    Event,
    FunctionCall,
    LlmAgent,
    LlmCallsLimitExceededError,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
    ToolExecution,
    Usage,
    exit_loop,
)
from intermission.agents.effects import Steps
from intermission.models import ModelRequest, ModelResponse
from intermission.sessions.view import SessionView
from intermission.testing import Gate, ScriptedModel, calls, text
from intermission_storage import EventLog, MemoryEventLog
from play import Play

MODEL = ScriptedModel()
PATIENCE = 30.0


def skip_summarization(tool_context: ToolContext) -> str:
    """Answer for the model."""
    tool_context.actions.skip_summarization = True
    return "done"


def escalate(tool_context: ToolContext) -> None:
    """Leave."""
    tool_context.actions.escalate = True


def end_of_agent(tool_context: ToolContext) -> None:
    """End."""
    tool_context.actions.end_of_agent = True


def end_invocation(tool_context: ToolContext) -> None:
    """End, by the older name."""
    tool_context.actions.end_invocation = True


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open at the end."""
    one = Gate()
    yield one
    one.open()


def look() -> str:
    """Look."""
    return "seen"


def outcomes(model: ScriptedModel) -> list[Any]:
    """What the model was told, last, of the calls that have no response of a tool."""
    contents = model.requests[-1].contents
    return [one.response.get("outcome") for content in contents for one in content.function_responses]


@pytest.mark.parametrize("tool", [skip_summarization, escalate, end_of_agent, end_invocation, exit_loop])
def test_a_response_that_ends_the_turn_is_the_last_event_and_the_model_is_not_asked_again(
    tool: Callable[..., Any],
) -> None:
    both = Content.model(calls=[FunctionCall("", tool.__name__), FunctionCall("", "look")])
    play = Play(both)
    events = play.run(LlmAgent("agent", MODEL, tools=[tool, look]))

    assert len(events) == 2
    assert len(events[1].function_responses) == 2
    assert play.effects[-1].last


def test_exit_loop_leaves_the_loop_without_a_word() -> None:
    events = Play(Content.model(calls=[FunctionCall("", "exit_loop")])).run(
        LlmAgent("agent", MODEL, tools=[exit_loop])
    )

    assert events[1].actions.escalate
    assert events[1].actions.skip_summarization
    assert events[1].is_final


@pytest.mark.parametrize("used", [Usage(7, 2, 9), Usage(complete=False)])
def test_an_answer_of_nothing_ends_the_turn_and_its_event_holds_its_tokens_alone(
    used: Usage, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(text("", usage=used), default="ok")
    with Runner(app_with(model), log=MemoryEventLog()) as runner, caplog.at_level(logging.WARNING):
        run = runner.run(**KEY, message="hi")
        (event,) = run
        assert (event.content, event.usage, event.is_final) == (None, used, False)
        assert (run.result(0).status, run.result(0).text) == (RunStatus.COMPLETED, "")
        assert run.result(0).usage == used
        assert runner.run(**KEY, message="hi?").answer(PATIENCE) == "ok"
    assert "answered agent agent with nothing" in caplog.text
    assert_legal(model.requests)


def test_an_answer_that_was_held_back_is_an_event_that_says_so_though_it_holds_nothing() -> None:
    class Careful:
        name = "careful"

        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            assert request.contents
            yield ModelResponse(content=Content.model(), finish_reason="content_filter")

    with Runner(app_with(Careful()), log=MemoryEventLog()) as runner:
        (event,) = runner.run(**KEY, message="hi")
    assert (event.text, event.error_code, event.is_final) == ("", "content_filter", True)


@pytest.mark.scenario("F5")
def test_the_call_limit_fails_the_run_with_every_call_answered_and_the_next_run_counts_afresh() -> None:
    model = ScriptedModel(*[calls(("look", {}))] * 3, "ok", default=calls(("look", {})))
    with Runner(app_with(model, look), log=MemoryEventLog(), config=RunConfig(max_llm_calls=3)) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
        assert result.status is RunStatus.FAILED
        assert isinstance(result.error, LlmCallsLimitExceededError)
        called = [call.id for event in result.events for call in event.function_calls]
        answered = [one.id for event in result.events for one in event.function_responses]
        assert called == answered
        assert len(called) == 3
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "ok"
        assert runner.run(**KEY, message="again").result(PATIENCE).status is RunStatus.FAILED
    assert_legal(model.requests)
    assert len(model.requests) == 7


@pytest.mark.scenario("A12")
def test_a_stop_in_the_first_of_five_calls_leaves_four_out_and_they_are_answered() -> None:
    effects = list[int]()

    def work(number: int, tool_context: ToolContext) -> None:
        effects.append(number)
        tool_context.stop("enough")

    model = ScriptedModel(calls(*[("work", {"number": number}) for number in range(5)]), default="ok")
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
    with Runner(app_with(model, work), log=MemoryEventLog(), config=config) as runner:
        result = runner.run(**KEY, message="hi").result(PATIENCE)
        assert result.status is RunStatus.STOPPED
        responses = [one for event in result.events for one in event.function_responses]
        assert [one.response.get("message") for one in responses] == [None, *["not run, stopped: enough"] * 4]
        assert runner.run(**KEY, message="again").answer(PATIENCE) == "ok"
    assert effects == [0]
    assert_legal(model.requests)


@pytest.mark.scenario("B1", "B4")
@pytest.mark.parametrize("restart", [False, True])
def test_a_cancel_in_the_first_tool_of_a_session_leaves_a_conversation_that_can_be_gone_on_with(
    restart: bool, gate: Gate
) -> None:
    def work(name: str) -> str:
        gate.wait()
        return name

    model, log = (
        ScriptedModel(calls(("work", {"name": "a"}), ("work", {"name": "b"})), default="ok"),
        MemoryEventLog(),
    )
    with Runner(app_with(model, work), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        gate.open()
        if not restart:
            assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
    if restart:
        with Runner(app_with(model, work), log=log) as runner:
            assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
    assert_legal(model.requests)
    assert outcomes(model) == ["unknown", "not_started"]


def test_what_a_call_answered_before_its_run_was_cancelled_is_what_the_model_is_told(gate: Gate) -> None:
    def work(name: str) -> str:
        if name == "b":
            gate.wait()
        return f"{name} done"

    both = calls(("work", {"name": "a"}), ("work", {"name": "b"}))
    model, log = ScriptedModel(both, default="ok"), MemoryEventLog()
    config = RunConfig(tool_execution=ToolExecution.SEQUENTIAL)
    with Runner(app_with(model, work), log=log, config=config) as runner:
        run = runner.run(**KEY, message="hi").start()
        gate.arrived()
        run.cancel()
        gate.open()
        run.result(PATIENCE)
    with Runner(app_with(model, work), log=log) as runner:
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
    (told,) = (content for content in model.requests[-1].contents if content.function_responses)
    first, second = told.function_responses
    assert first.response == {"result": "a done"}
    assert second.response["outcome"] == "unknown"


def test_of_calls_that_are_answered_the_session_keeps_no_outcome() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel(calls(("look", {}), ("look", {})), "ok"), look), log=log) as runner:
        runner.run(**KEY, message="hi").answer(PATIENCE)
    view = SessionView()
    outcomes = list[int]()
    for record in records(log):
        view.fold([record])
        outcomes.append(len(view.outcomes))
    assert max(outcomes) == 2
    assert outcomes[-1] == 0


@pytest.mark.scenario("B6")
def test_what_a_cancelled_run_had_only_shown_in_part_is_neither_in_the_log_nor_in_the_next_request(
    gate: Gate,
) -> None:
    model, log = ScriptedModel(text("Hello ", "wor", gate, "ld"), default="ok"), MemoryEventLog()
    with Runner(app_with(model), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True)).start()
        gate.arrived()
        run.cancel()
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        assert [event.text for event in runner.sessions.events(**KEY)] == ["hi"]
        assert [record.status for record in runner.sessions.runs(**KEY)] == [RunStatus.CANCELLED]
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
    assert [content.text for content in model.requests[-1].contents] == ["hi", "And?"]


@pytest.mark.scenario("G4")
def test_partials_sum_up_to_the_final_text_and_a_call_that_was_announced_runs_once() -> None:
    ran = list[str]()

    def work() -> str:
        ran.append("once")
        return "done"

    model = ScriptedModel(calls(("work", {}), text="Let me see."), text("All ", "done."))
    with Runner(app_with(model, work), log=MemoryEventLog()) as runner:
        events = list(runner.run(**KEY, message="hi", config=RunConfig(streaming=True)))
    whole = [event for event in events if not event.partial]
    assert "".join(event.text for event in events if event.partial) == "".join(event.text for event in whole)
    assert "".join(event.delta for event in events) == "Let me see.All done."
    assert [event.text for event in whole] == ["Let me see.", "", "All done."]
    assert ran == ["once"]


@pytest.mark.scenario("B1")
def test_a_killed_process_leaves_a_conversation_that_can_be_gone_on_with(tmp_path: Path) -> None:
    with Child("calling", tmp_path / "log") as child:
        assert child.hear() == ["calling", "a"]
        child.kill()
    model = ScriptedModel(default="ok")
    with Runner(app_with(model), log=tmp_path / "log") as runner:
        assert runner.run(**KEY, message="And?").answer(PATIENCE) == "ok"
    assert outcomes(model) == ["unknown", "not_started"]
    assert_legal(model.requests)


def test_the_events_of_an_agent_carry_its_name() -> None:
    events: list[Event] = Play(Content.model(calls=[FunctionCall("", "look")]), "ok").run(
        LlmAgent("clerk", MODEL, tools=[look])
    )

    assert [event.author for event in events] == ["clerk"] * 3


def test_an_agent_runs_on_its_branch() -> None:
    events = Play("ok").run(LlmAgent("clerk", MODEL), branch="p.clerk")

    assert [event.branch for event in events] == ["p.clerk"]


def test_an_agent_of_ones_own_may_yield_from_anothers_run() -> None:

    class Twice(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            for below in self.sub_agents:
                yield from below.run(context)

    model = ScriptedModel(calls(("look", {})), "one", "two")
    first = LlmAgent("first", model, tools=[look])
    twice = Twice("twice", sub_agents=[first, LlmAgent("second", model)])
    log: EventLog = MemoryEventLog()
    with Runner(app_of(twice), log=log) as runner:
        events = list(runner.run(**KEY, message="hi"))
    assert [(event.author, event.text) for event in events] == [
        *(("first", ""), ("first", ""), ("first", "one"), ("second", "two"))
    ]
    assert "first said: one" in model.requests[-1].contents[-1].text
