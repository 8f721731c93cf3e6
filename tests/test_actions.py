"""What agents and tools ask for, until an event carries it."""

import pytest

from intermission import App, LlmAgent, RunConfig, Runner, ToolContext, ToolExecution
from intermission.actions import Actions
from intermission.events import NO_ACTIONS, EventActions
from intermission.testing import ScriptedModel, calls
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
        tool_context.actions.escalate = True

    def second(tool_context: ToolContext) -> None:
        tool_context.actions.skip_summarization = True

    model = ScriptedModel(calls(("first", {}), ("second", {})))
    app = App("app", LlmAgent("root", model, tools=[first, second]))
    with Runner(app, log=MemoryEventLog(), config=RunConfig(tool_execution=mode)) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        [answered] = [event for event in run if event.function_responses]
    assert answered.actions == EventActions(escalate=True, skip_summarization=True)
