from hypothesis import given
from hypothesis import strategies as st

from intermission import Content, Event, FunctionCall, FunctionResponse, Part
from intermission.agents.contents import UNKNOWN_OUTCOME, conversation


def said(content: Content | None, *, partial: bool = False) -> Event:
    return Event(invocation_id="e", author="a", timestamp=0.0, content=content, partial=partial)


def calling(*ids: str) -> Event:
    return said(Content.model(calls=[FunctionCall(each, "look", {}) for each in ids]))


def answering(*ids: str) -> Event:
    parts = tuple(Part(function_response=FunctionResponse(each, "look", {"ok": each})) for each in ids)
    return said(Content("user", parts))


def test_a_conversation_is_what_was_said_in_its_order() -> None:
    events = [said(Content.user("hi")), calling("1"), answering("1"), said(Content.model("done"))]

    assert list(conversation(events)) == [event.content for event in events]


def test_a_call_without_a_response_is_answered_with_an_unknown_outcome() -> None:
    contents = conversation([said(Content.user("hi")), calling("1", "2"), said(Content.user("hello?"))])

    assert [content.role for content in contents] == ["user", "model", "user", "user"]
    assert [response.id for response in contents[2].function_responses] == ["1", "2"]
    assert all(response.response == UNKNOWN_OUTCOME for response in contents[2].function_responses)


def test_a_call_that_is_open_at_the_end_is_answered_too() -> None:
    assert conversation([calling("1")])[-1].function_responses[0].response == UNKNOWN_OUTCOME


def test_the_call_that_lacks_a_response_among_others_is_the_one_that_is_answered() -> None:
    responses = conversation([calling("1", "2"), answering("2")])[-1].function_responses

    assert [(response.id, dict(response.response)) for response in responses] == [
        ("1", UNKNOWN_OUTCOME),
        ("2", {"ok": "2"}),
    ]


def test_a_response_without_its_call_is_left_out() -> None:
    assert conversation([said(Content.user("hi")), answering("9")]) == (Content.user("hi"),)


def test_partials_thoughts_and_events_without_content_are_left_out() -> None:
    thought = said(Content("model", (Part(text="hm", thought=True),)))
    both = said(Content("model", (Part(text="hm", thought=True), Part(text="yes"))))

    assert conversation([said(Content.model("y"), partial=True), thought, said(None), both]) == (
        Content.model("yes"),
    )


def test_text_beside_a_response_follows_it() -> None:
    response = Part(function_response=FunctionResponse("1", "look", {}))
    both = said(Content("user", (response, Part(text="and hurry"))))

    assert conversation([calling("1"), both])[1:] == (Content("user", (response,)), Content.user("and hurry"))


IDS = st.sampled_from("123")
HISTORY = st.lists(
    st.one_of(
        st.lists(IDS, min_size=1, max_size=3, unique=True).map(lambda ids: calling(*ids)),
        st.lists(IDS, min_size=1, max_size=3, unique=True).map(lambda ids: answering(*ids)),
        st.just(said(Content.user("hi"))),
        st.just(said(Content.model("hello"))),
    ),
    max_size=8,
)


@given(HISTORY)
def test_whatever_the_log_holds_every_call_is_followed_by_exactly_its_responses(events: list[Event]) -> None:
    contents = conversation(events)
    for before, after in zip((None, *contents), (*contents, None), strict=True):
        asked = [call.id for call in before.function_calls] if before else []
        answered = [response.id for response in after.function_responses] if after else []
        assert asked == answered
