"""What agents and tools ask for, until an event carries it."""

import pytest

from intermission import App, LlmAgent, RunConfig, Runner, ToolContext, ToolExecution
from intermission.actions import Actions
from intermission.events import NO_ACTIONS, EventActions
from intermission.testing import ScriptedModel, calls, text
from intermission_storage import MemoryEventLog


def test_what_is_asked_for_is_taken_once() -> None:
    actions = Actions(escalate=True, transfer_to_agent="billing")
    taken = actions.take(EventActions(state_delta={"a": 1}))
    assert taken == EventActions(state_delta={"a": 1}, escalate=True, transfer_to_agent="billing")
    assert actions.take() is NO_ACTIONS


def test_end_invocation_is_another_name_of_end_of_agent() -> None:
    actions = Actions()
    actions.end_invocation = True
    assert actions.end_of_agent
    assert actions.end_invocation
    assert actions.take().end_of_agent


def test_of_two_transfers_the_later_stands_and_nothing_is_taken_back() -> None:
    actions = Actions(transfer_to_agent="a", skip_summarization=True)
    actions.merge(Actions(transfer_to_agent="b"))
    actions.merge(Actions())
    assert actions == Actions(transfer_to_agent="b", skip_summarization=True)


@pytest.mark.parametrize("mode", ToolExecution)
def test_what_tools_ask_for_is_on_the_event_of_their_responses(mode: ToolExecution) -> None:
    def first(tool_context: ToolContext) -> None:
        tool_context.actions.transfer_to_agent = "first"
        tool_context.actions.skip_summarization = True

    def second(tool_context: ToolContext) -> None:
        tool_context.actions.transfer_to_agent = "second"

    model = ScriptedModel(calls(("first", {}), ("second", {})), text("done"))
    below = [LlmAgent(name, model) for name in ("first", "second")]
    agent = LlmAgent("root", model, tools=[first, second], sub_agents=below)
    with Runner(App("app", agent), log=MemoryEventLog()) as runner:
        config = RunConfig(tool_execution=mode)
        run = runner.run(user_id="u", session_id="s", message="hi", config=config)
        answers = [event for event in run if event.function_responses]
    assert [event.actions.transfer_to_agent for event in answers] == ["second"]
    assert answers[0].actions.skip_summarization
