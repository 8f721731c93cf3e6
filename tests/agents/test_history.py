"""Whatever a log holds, what is made of it is a conversation that each provider takes."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from intermission import Content, Event, FunctionCall, FunctionResponse, Part
from intermission.agents.contents import asking, conversation
from intermission.testing import contents_problems
from play import said
from wire_shapes import problems_on_the_wire

IDS = st.sampled_from(["1", "2", "3", ""])
PARTS = st.one_of(
    st.sampled_from(["", " \n", "hi"]).map(lambda text: Part(text=text)),
    st.just(Part(text="hm", thought=True)),
    IDS.map(lambda name: Part(function_call=FunctionCall(name, "look", {"at": name}))),
    IDS.map(lambda name: Part(function_response=FunctionResponse(name, "look", {"seen": name}))),
    IDS.map(lambda name: Part(function_response=FunctionResponse(name, "other", {"seen": name}))),
)


def content(role: str, parts: list[Part]) -> Content:
    return Content(role, tuple(parts))


def event(
    content: Content | None, author: str, branch: str | None, partial: bool, pending: tuple[str, ...]
) -> Event:
    return said(content, author, branch=branch, partial=partial, long_running_tool_ids=pending)


ROLES = st.sampled_from(["user", "model", "assistant"])
CONTENTS = st.none() | st.builds(content, ROLES, st.lists(PARTS, max_size=4))
EVENTS = st.builds(
    event,
    CONTENTS,
    st.sampled_from(["user", "a", "a", "b"]),
    st.sampled_from([None, None, "p", "p.a", "p.ab"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([(), ("1",)]),
)
OUTCOMES = st.none() | st.dictionaries(
    IDS, st.sampled_from(["unknown", "stopped", "not_started", "finished"]) | st.just({"seen": "later"})
)


@settings(max_examples=scale.rounds(300, 5000))
@given(st.lists(EVENTS, max_size=10), st.sampled_from([None, "p", "p.a"]), OUTCOMES, st.booleans())
def test_whatever_the_log_holds_the_conversation_breaks_no_rule_of_a_provider(
    events: list[Event], branch: str | None, outcomes: Any, current_turn: bool
) -> None:
    contents = asking(conversation(events, "a", branch, outcomes=outcomes, current_turn=current_turn))

    assert contents_problems(contents) == []
    assert problems_on_the_wire(contents) == {}


@given(st.lists(EVENTS, max_size=10))
def test_every_call_of_the_agents_is_shown_and_answered(events: list[Event]) -> None:
    contents = conversation([*events, said("and now?", "user")], "a")

    called = [
        {call.args["at"] for call in event.function_calls if call.id}
        for event in events
        if event.author == "a" and not event.partial and any(call.id for call in event.function_calls)
    ]
    shown = [{call.args["at"] for call in one.function_calls if call.args["at"]} for one in contents]
    assert [ids for ids in shown if ids] == called
