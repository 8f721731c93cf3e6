import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission import Content, Event, EventActions, FunctionCall, FunctionResponse, Part, Usage

PLAIN = st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3)
ACTIONS = st.builds(
    EventActions,
    skip_summarization=st.booleans(),
    state_delta=PLAIN,
    artifact_delta=st.dictionaries(st.text(), st.integers(), max_size=2),
    deleted_artifact_ids=st.lists(st.text(), max_size=2).map(tuple),
    transfer_to_agent=st.none() | st.text(min_size=1),
    escalate=st.booleans(),
    end_of_agent=st.booleans(),
    agent_state=st.none() | PLAIN,
    compaction=st.none() | PLAIN,
)
EVENTS = st.builds(
    Event,
    invocation_id=st.text(),
    author=st.text(),
    timestamp=st.floats(0, 1e12),
    content=st.none() | st.text().map(Content.user),
    partial=st.booleans(),
    actions=ACTIONS,
    long_running_tool_ids=st.lists(st.text(), max_size=2).map(tuple),
    branch=st.none() | st.text(),
    usage=st.none() | st.builds(Usage, st.integers(0), st.integers(0), st.integers(0), st.booleans()),
    error_code=st.none() | st.text(),
    error_message=st.none() | st.text(),
    interrupted=st.booleans(),
    turn_complete=st.none() | st.booleans(),
    seq=st.none() | st.integers(1),
)


def event(**fields: Any) -> Event:
    return Event(invocation_id="e-1", author="agent", timestamp=1.5, **fields)


@given(EVENTS)
def test_an_event_comes_back_equal_from_its_json(original: Event) -> None:
    assert Event.from_dict(original.to_dict()) == original
    assert Event.from_dict(json.loads(original.to_json())) == original


def test_the_json_of_an_event_has_the_names_that_adk_clients_read() -> None:
    shown = event(id="x", content=Content.model("hi"), usage=Usage(1, 2, 3), seq=4).to_dict()

    assert shown == {
        "id": "x",
        "invocationId": "e-1",
        "author": "agent",
        "timestamp": 1.5,
        "actions": {
            "stateDelta": {},
            "artifactDelta": {},
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
        },
        "content": {"role": "model", "parts": [{"text": "hi"}]},
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
        "seq": 4,
    }


def test_end_invocation_is_read_as_the_end_of_the_agent() -> None:
    assert EventActions.from_dict({"endInvocation": True}).end_of_agent


def test_the_delta_of_a_final_event_is_only_what_no_partial_has_shown() -> None:
    assert event(content=Content.model("Hello")).delta == "Hello"
    assert event(content=Content.model("Hello"), shown=3).delta == "lo"
    assert event(content=Content.model("Hello"), shown=5).delta == ""


def test_what_partials_have_shown_is_neither_stored_nor_compared() -> None:
    plain = event(content=Content.model("Hello"))
    streamed = replace(plain, shown=5)

    assert streamed == plain
    assert streamed.to_dict() == plain.to_dict()


CALL = Content.model(calls=[FunctionCall("c", "f", {})])
RESPONSE = Content("user", (Part(function_response=FunctionResponse("c", "f", {})),))


@pytest.mark.parametrize(
    ("fields", "final"),
    [
        ({"content": Content.model("done")}, True),
        ({"content": Content.model("do"), "partial": True}, False),
        ({"content": CALL}, False),
        ({"content": CALL, "long_running_tool_ids": ("c",)}, True),
        ({"content": RESPONSE}, False),
        ({"content": RESPONSE, "actions": EventActions(skip_summarization=True)}, True),
        ({"actions": EventActions(end_of_agent=True)}, False),
    ],
)
def test_an_event_is_final_when_it_ends_its_authors_turn(fields: dict[str, Any], final: bool) -> None:
    assert event(**fields).is_final is final


def test_an_event_that_only_records_progress_is_a_checkpoint() -> None:
    assert event(actions=EventActions(agent_state={})).is_checkpoint
    assert event(actions=EventActions(end_of_agent=True)).is_checkpoint
    assert not event(content=Content.model("x"), actions=EventActions(agent_state={})).is_checkpoint


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        event().author = "somebody else"  # type: ignore[misc]  # this is what must fail


def test_usage_adds_up_and_stays_incomplete_once_a_part_is() -> None:
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)
    assert not (Usage(1, 2, 3) + Usage(complete=False)).complete
