"""Calls that need a person's leave: how they are asked about, approved and rejected, and who makes them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from apps import KEY, app_of
from intermission import (
    BaseAgent,
    Confirmation,
    Content,
    Event,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    Part,
    Runner,
    RunStatus,
    SequentialAgent,
    ToolContext,
    tool,
)
from intermission.actions import Actions
from intermission.agents.confirmations import newly_confirmed, question
from intermission.kernel.scope import CancelScope
from intermission.pending import CONFIRMATION, PendingKind
from intermission.state import State
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from pausing import ASK, PATIENCE, Story, asking, llm, model_of, reply_to, words
from play import answering, calling, said


def asked_in(runner: Runner) -> list[FunctionCall]:
    """The questions of the session."""
    events = runner.sessions.events(**KEY)
    return [call for event in events for call in event.function_calls if call.name == CONFIRMATION]


def approve(runner: Runner, **said: Any) -> Content:
    """A message that answers the session's newest question."""
    return reply_to(asked_in(runner)[-1].id, said or {"confirmed": True}, CONFIRMATION)


def test_where_runs_do_not_pause_the_model_hears_that_leave_is_needed_and_the_next_message_gives_it() -> None:
    agent = asking("A")
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        assert [words(event) for event in runner.run(**KEY, message="pay")] == [
            "A calls ask",
            "A calls adk_request_confirmation",
            "A hears ask",
            "A says A is done",
        ]
        run = runner.run(**KEY, message=approve(runner))
        assert [words(event) for event in run] == ["A hears ask", "A says A is done"]
        assert run.result(PATIENCE).status is RunStatus.COMPLETED

    placeholder, asked = model_of(agent).requests[1].contents[-1], model_of(agent).requests[2]
    assert placeholder.function_responses[0].response["status"] == "error"
    # Neither the question nor the placeholder nor what was said in between.
    assert [content.role for content in asked.contents] == ["user", "model", "user"]
    assert asked.contents[0].text == "pay"
    assert [call.name for call in asked.contents[1].function_calls] == ["ask"]
    assert [each.response for each in asked.contents[2].function_responses] == [{"asked": 0}]


def test_an_answer_goes_to_the_agent_below_a_workflow_that_asked_and_not_to_the_root() -> None:
    leaf, root_model = asking("leaf"), ScriptedModel(calls(("transfer_to_agent", {"agent_name": "seq"})))
    root = LlmAgent("root", root_model, sub_agents=[SequentialAgent("seq", sub_agents=[leaf])])
    with Runner(app_of(root), log=MemoryEventLog()) as runner:
        runner.run(**KEY, message="hi").result(PATIENCE)
        run = runner.run(**KEY, message=approve(runner))
        assert [words(event) for event in run] == ["leaf hears ask", "leaf says leaf is done"]
    assert len(root_model.requests) == 1


def called(asks: FunctionTool, confirmation: Confirmation | None) -> tuple[Any, Mapping[str, Any]]:
    """Call a tool without a run; return its response and what it asks for."""
    actions = Actions()
    context = ToolContext(
        function_call_id="c-1",
        invocation_id="e",
        user_id="u",
        session_id="s",
        state=State(dict),
        cancellation=CancelScope.child_of(None),
        actions=actions,
        request_stop=lambda _: None,
        confirmation=confirmation,
    )
    return asks.call({"n": 2}, context), actions.requested_tool_confirmations


def many(n: int) -> bool:
    """Whether a call needs leave."""
    return n > 1


class Counter:
    def count(self, n: int) -> dict[str, int]:
        """Count."""
        return {"asked": n}


@tool(require_confirmation=True)
def named(n: int) -> dict[str, int]:
    """Count."""
    return {"asked": n}


@pytest.mark.parametrize(
    "asks",
    [
        ASK,
        FunctionTool(Counter().count, require_confirmation=True),
        named,
        FunctionTool(Counter().count, name="counting", require_confirmation=many),
    ],
)
def test_a_tool_without_leave_asks_for_it_by_its_name_with_a_no_it_rejects_and_with_a_yes_it_works(
    asks: FunctionTool,
) -> None:
    response, asked = called(asks, None)
    assert response["status"] == "error"
    assert list(asked) == ["c-1"]
    assert asks.name in asked["c-1"]["hint"]

    response, asked = called(asks, Confirmation(False, hint="too much"))
    assert (response["status"], asked) == ("rejected", {})
    assert response["message"].endswith("too much")

    assert called(asks, Confirmation(True)) == ({"asked": 2}, {})


def test_a_function_of_the_arguments_tells_which_calls_need_leave() -> None:
    tools = [FunctionTool(Counter().count, name="ask", require_confirmation=many)]
    agent = llm("A", calls(("ask", {"n": 1}), ("ask", {"n": 2})), tools=tools)
    with Story(agent) as story:
        assert story.say()[-2:] == ["A calls adk_request_confirmation", "A hears ask"]
        (call,) = story.pending
        assert call.arguments == {"n": 2}
        assert story.answer(call) == ["A hears ask", "A says A is done", "A ends"]
    answers = model_of(agent).requests[-1].contents[-1].function_responses
    assert [each.response for each in answers] == [{"asked": 1}, {"asked": 2}]


def test_a_tool_may_ask_from_inside_and_gets_what_was_said() -> None:
    given = list[Confirmation | None]()

    def book(days: int, tool_context: ToolContext) -> dict[str, Any]:
        """Book some days."""
        given.append(tool_context.confirmation)
        if tool_context.confirmation is None:
            tool_context.request_confirmation("How many days?", {"asked": days})
            return {}
        return {"days": tool_context.confirmation.payload["days"]}

    agent = llm("A", calls(("book", {"days": 9})), tools=[book])
    with Story(agent) as story:
        story.say()
        (call,) = story.pending
        assert (call.hint, call.payload, call.tool) == ("How many days?", {"asked": 9}, "book")
        story.answer(call.approve({"days": 5}))
    assert given == [None, Confirmation(True, {"days": 5})]
    assert model_of(agent).requests[-1].contents[-1].function_responses[0].response == {"days": 5}


def test_a_call_that_is_rejected_is_not_made_and_the_model_hears_why() -> None:
    agent = asking("A")
    with Story(agent) as story:
        story.say()
        assert story.answer(story.pending[0].reject("not today")) == [
            "A hears ask",
            "A says A is done",
            "A ends",
        ]
    (response,) = model_of(agent).requests[-1].contents[-1].function_responses
    assert response.response["status"] == "rejected"
    assert "not today" in response.response["message"]


@pytest.mark.parametrize(
    "answer",
    [
        {"confirmed": True},
        {"approved": True},
        {"confirmed": True, "payload": None, "hint": ""},
        {"response": '{"confirmed": true}'},
    ],
)
def test_each_form_in_which_clients_say_yes_is_one(answer: dict[str, Any]) -> None:
    agent = asking("A")
    with Story(agent) as story:
        story.say()
        story.say(reply_to(story.pending[0], answer, CONFIRMATION))
    assert model_of(agent).requests[-1].contents[-1].function_responses[0].response == {"asked": 0}


def test_an_event_with_a_question_has_an_id_and_names_the_call_and_what_is_asked() -> None:
    with Story(asking("A")) as story:
        story.say()
        event = next(event for event in story.events if event.long_running_tool_ids)
        (call,), (asked,) = event.function_calls, story.pending
    assert event.id
    assert event.long_running_tool_ids == (call.id,)
    assert call.id == asked.id != asked.function_call_id
    assert call.args["originalFunctionCall"] == {
        "id": asked.function_call_id,
        "name": "ask",
        "args": {"n": 0},
    }
    assert call.args["toolConfirmation"] == {"hint": asked.hint, "confirmed": False, "payload": None}


def test_a_tool_that_needs_no_leave_asks_nothing() -> None:
    with Story(llm("A", calls(("look", {})), tools=[FunctionTool(Counter().count, name="look")])) as story:
        assert story.say() == ["A calls look", "A hears look", "A says A is done", "A ends"]
    assert [
        call for event in story.events for call in event.function_calls if call.name == CONFIRMATION
    ] == []


# Which calls an answer gives leave for, from events alone.

CALL = FunctionCall("c-1", "look", {})


def asks_about(call: FunctionCall, id: str = "q-1", author: str = "a") -> Event:
    """The event of a question about a call."""
    asked = {"hint": "?", "confirmed": False, "payload": None}
    (part,) = question([(call, asked, PendingKind.CONFIRMATION)]).parts
    assert part.function_call is not None
    made = replace(part.function_call, id=id)
    return said(Content("model", (Part(function_call=made),)), author)


def says_yes(*ids: str, author: str = "user") -> Event:
    """The event of an answer."""
    parts = [Part(function_response=FunctionResponse(id, CONFIRMATION, {"confirmed": True})) for id in ids]
    return said(Content("user", tuple(parts)), author)


MADE, ASKED, YES = calling("c-1"), asks_about(CALL), says_yes("q-1")


def test_an_answer_gives_leave_for_the_call_that_the_agent_asked_about() -> None:
    assert newly_confirmed([MADE, ASKED, YES], "a") == (CALL,)
    assert newly_confirmed([MADE, ASKED, answering("c-1"), said("wait", "a"), YES], "a") == (CALL,)


def test_without_an_answer_there_is_no_leave() -> None:
    assert newly_confirmed([], "a") == ()
    assert newly_confirmed([MADE, ASKED], "a") == ()
    assert newly_confirmed([MADE, ASKED, said("no answer", "user")], "a") == ()
    assert newly_confirmed([MADE, ASKED, YES, said("more", "user")], "a") == ()


def test_a_call_that_was_made_since_the_answer_is_not_made_again() -> None:
    assert newly_confirmed([MADE, ASKED, YES, answering("c-1"), YES], "a") == ()


def test_what_another_agent_says_of_the_same_id_changes_nothing() -> None:
    peer = [calling("c-1", author="b"), answering("c-1", author="b")]
    assert newly_confirmed([MADE, ASKED, *peer, YES], "a") == (CALL,)
    assert newly_confirmed([MADE, ASKED, YES, *peer, YES], "a") == (CALL,)


@pytest.mark.parametrize(
    "events",
    [
        [ASKED, YES],
        [calling("c-1", author="b"), ASKED, YES],
        [MADE, asks_about(CALL, author="b"), YES],
        [MADE, YES],
        [MADE, asks_about(replace(CALL, name="other")), YES],
        [MADE, asks_about(replace(CALL, args={"n": 2})), YES],
        [MADE, asks_about(replace(CALL, id="c-2")), YES],
        [MADE, ASKED, says_yes("q-2")],
        [MADE, ASKED, says_yes("q-1", author="b")],
    ],
    ids=[
        *("not made", "made by another", "asked by another", "not asked", "another tool"),
        *("other arguments", "another call", "another question", "answered by an agent"),
    ],
)
def test_leave_is_bound_to_the_agent_the_call_and_its_arguments(events: list[Event]) -> None:
    assert newly_confirmed(events, "a") == ()


def test_an_approved_call_whose_tool_fails_is_answered_and_the_model_hears_it() -> None:
    def fails(n: int) -> None:
        """Fail."""
        raise RuntimeError("secret")

    agent = llm("A", calls(("fails", {"n": 1})), tools=[FunctionTool(fails, require_confirmation=True)])
    with Story(agent) as story:
        story.say()
        assert story.answer(*story.pending) == ["A hears fails", "A says A is done", "A ends"]
    (response,) = model_of(agent).requests[-1].contents[-1].function_responses
    assert response.response["status"] == "error"


def test_calls_of_one_turn_are_approved_one_at_a_time_and_each_is_made_once() -> None:
    made = list[int]()

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        made.append(n)
        return {"paid": n}

    pays = FunctionTool(pay, require_confirmation=True)
    agent: BaseAgent = llm("A", calls(("pay", {"n": 0}), ("pay", {"n": 1}), ("pay", {"n": 2})), tools=[pays])
    with Story(agent) as story:
        story.say()
        first, second, third = story.pending
        assert [call.arguments["n"] for call in story.pending] == [0, 1, 2]
        assert story.answer(second) == ["A hears pay"]
        assert made == [1]
        assert story.answer(third.reject()) == ["A hears pay"]
        assert story.answer(first) == ["A hears pay", "A says A is done", "A ends"]
    assert made == [1, 0]


def test_an_answer_to_a_call_itself_is_one_to_the_question_about_it() -> None:
    agent = asking("A")
    with Story(agent) as story:
        story.say()
        id = story.pending[0].function_call_id
        assert story.play(story.runner.resume(**KEY, answers={id: {"confirmed": True}}))[0] == "A hears ask"
        assert story.pending == []


def test_an_async_function_of_the_arguments_is_refused_when_the_tool_is_built() -> None:
    async def asks(amount: int) -> bool:
        return False

    def pay(amount: int) -> None:
        """Pay."""

    wrong: Any = asks
    with pytest.raises(TypeError, match="must be a plain function"):
        FunctionTool(pay, require_confirmation=wrong)


def test_what_a_function_of_the_arguments_does_to_them_the_tool_does_not_see() -> None:
    seen: list[list[int]] = []

    def asks(amounts: list[int]) -> bool:
        amounts.append(1_000_000)
        return False

    def pay(amounts: list[int]) -> None:
        """Pay."""
        seen.append(amounts)

    tools = [FunctionTool(pay, require_confirmation=asks)]
    with Story(llm("clerk", calls(("pay", {"amounts": [1]})), tools=tools)) as story:
        story.say()
    assert seen == [[1]]
