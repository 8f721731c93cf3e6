"""What a model is shown of a session's events."""

from typing import Any

import pytest

from intermission import Content, Event, FunctionCall, FunctionResponse, Part
from intermission.agents.contents import asking, conversation
from intermission.agents.outcomes import CallOutcome, outcome_response
from intermission.content import Blob
from intermission.events import is_within
from intermission.testing import contents_problems
from play import answering, calling, said

UNKNOWN = outcome_response("unknown")


def shown(*events: Event, **known: Any) -> tuple[Content, ...]:
    """What agent "a" is shown."""
    return conversation(events, "a", **known)


def texts(*events: Event, **known: Any) -> list[str]:
    """The texts of it."""
    return [content.text for content in shown(*events, **known)]


def test_a_conversation_is_what_was_said_in_its_order() -> None:
    events = [said("hi", "user"), calling("1"), answering("1"), said("done")]

    assert list(shown(*events)) == [event.content for event in events]


def test_a_call_without_a_response_is_answered_with_an_unknown_outcome() -> None:
    contents = shown(said("hi", "user"), calling("1", "2"), said("hello?", "user"))

    assert [content.role for content in contents] == ["user", "model", "user", "user"]
    assert [response.id for response in contents[2].function_responses] == ["1", "2"]
    assert all(response.response == UNKNOWN for response in contents[2].function_responses)


def test_a_call_that_is_open_at_the_end_is_answered_too() -> None:
    assert shown(calling("1"))[-1].function_responses[0].response == UNKNOWN


def test_the_call_that_lacks_a_response_among_others_is_the_one_that_is_answered() -> None:
    responses = shown(calling("1", "2"), answering("2"))[-1].function_responses

    assert [(response.id, response.response.get("id")) for response in responses] == [
        ("1", None),
        ("2", "2"),
    ]
    assert responses[0].response == UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ({}, "not_started"),
        ({"1": "unknown"}, "unknown"),
        ({"1": "stopped"}, "stopped"),
        ({"1": "not_started"}, "not_started"),
        ({"1": "finished"}, "finished"),
    ],
)
def test_a_call_without_a_response_is_answered_with_what_the_log_knows(
    outcomes: dict[str, CallOutcome], told: str
) -> None:
    (response,) = shown(calling("1"), outcomes=outcomes)[-1].function_responses

    assert response.response["outcome"] == told
    assert response.response["message"]


def test_a_response_that_only_the_record_of_its_call_holds_is_given() -> None:
    (response,) = shown(calling("1"), outcomes={"1": {"rows": 3}})[-1].function_responses

    assert response == FunctionResponse("1", "look", {"rows": 3})


def test_a_long_running_call_without_an_answer_is_told_as_pending() -> None:
    (response,) = shown(calling("1", long_running_tool_ids=("1",)), outcomes={})[-1].function_responses

    assert response.response["outcome"] == "pending"


def test_a_response_without_its_call_is_left_out() -> None:
    assert shown(said("hi", "user"), answering("9")) == (Content.user("hi"),)


def test_what_a_provider_signed_goes_back_with_the_words_that_it_belongs_to() -> None:
    signed = Part(text="hm", thought=True, thought_signature=b"s")
    call = Part(function_call=FunctionCall("", "look"), thought_signature=b"t")

    alone = said(Content("model", (signed,)))
    both = said(Content("model", (signed, Part(text="yes"), call)))

    sent, _ = shown(alone, both)  # and what the call came to
    assert sent.parts[:2] == (signed, Part(text="yes"))
    assert sent.parts[2].thought_signature == b"t"


def test_partials_thoughts_and_what_is_empty_are_left_out() -> None:
    thought = said(Content("model", (Part(text="hm", thought=True),)))
    both = said(Content("model", (Part(text="hm", thought=True), Part(text="yes"))))
    empty = [said(None), said(Content("model", ())), said(""), said(Content("model", (Part(text=""),) * 2))]

    assert shown(said("y", partial=True), thought, *empty, both) == (Content.model("yes"),)


def test_text_beside_a_response_follows_it() -> None:
    response = Part(function_response=FunctionResponse("1", "look", {}))
    both = said(Content("user", (response, Part(text="and hurry"))), "user")

    assert shown(calling("1"), both)[1:] == (Content("user", (response,)), Content.user("and hurry"))


def test_a_late_response_stands_behind_its_call() -> None:
    contents = shown(calling("1"), said("wait", "user"), said("ok"), answering("1"), said("thanks", "user"))

    assert [bool(content.function_responses) for content in contents] == [False, True, False, False, False]
    assert contents[1].function_responses[0].response["id"] == "1"


def test_of_two_responses_to_one_call_the_later_counts() -> None:
    contents = shown(
        calling("1"), answering("1", said_back="soon"), said("ok"), answering("1", said_back="now")
    )

    assert [dict(one.response) for one in contents[1].function_responses] == [{"ok": "now", "id": "1"}]


def test_what_was_said_between_a_call_and_its_answer_is_left_out_while_the_answer_is_the_newest() -> None:
    between = [answering("1", said_back="soon"), said("I wait."), said("And?", "user"), said("Not yet.")]
    late = answering("1", author="user", said_back="now")

    contents = shown(said("hi", "user"), calling("1"), *between, late)
    assert [content.text for content in contents] == ["hi", "", ""]
    assert contents[-1].function_responses[0].response["ok"] == "now"
    assert len(shown(said("hi", "user"), calling("1"), *between, late, said("Then?", "user"))) == 7


def test_events_of_other_branches_are_left_out() -> None:
    events = [said(name, branch=name) for name in ("p", "p.a", "p.ab", "p.a.b", "q")]

    assert texts(*events, said("none"), branch="p.a") == ["p", "p.a", "none"]
    assert texts(*events) == ["p", "p.a", "p.ab", "p.a.b", "q"]


@pytest.mark.parametrize(
    ("branch", "outer", "within"),
    [
        ("p.a", "p", True),
        ("p.a", "p.a", True),
        ("p.ab", "p.a", False),
        ("p", "p.a", False),
        (None, "p", False),
        (None, None, True),
        ("p", None, True),
        ("p", "", False),
    ],
)
def test_branches_are_compared_by_their_segments(branch: str | None, outer: str | None, within: bool) -> None:
    assert is_within(branch, outer) is within


def test_what_another_agent_did_is_told_as_text_of_the_users() -> None:
    thinking = Part(text="hm", thought=True)
    spoken = said(Content("model", (thinking, Part(text="Rome"))), "b")
    contents = shown(said("hi", "user"), calling("1", author="b"), answering("1", author="b"), spoken)

    assert {content.role for content in contents} == {"user"}
    assert not any(content.function_calls or content.function_responses for content in contents)
    assert contents[1].text.split("\n")[1:] == ["b called look with {}"]
    assert 'look answered b with {"ok": "", "id": "1"}' in contents[2].text
    assert contents[3].text.endswith("b said: Rome")
    assert "hm" not in contents[3].text


def test_an_event_of_another_agent_that_says_nothing_is_left_out() -> None:
    assert shown(said(Content("model", (Part(text="hm", thought=True),)), "b"), said("", "b")) == ()


def test_a_picture_of_another_agent_is_kept() -> None:
    picture = Part(inline_data=Blob("image/png", b"1"))

    assert shown(said(Content("model", (picture,)), "b"))[0].parts[-1] == picture


def test_an_answer_of_the_users_to_another_agents_call_is_text_too() -> None:
    contents = shown(calling("1", author="b"), answering("1", author="user"))

    assert contents[1] == Content.user('look answered b with {"ok": "", "id": "1"}\n')


def test_what_another_agent_said_between_a_call_and_its_response_does_not_part_them() -> None:
    contents = shown(calling("1"), said("meanwhile", "b"), answering("1"), said("done"))

    assert [bool(content.function_responses) for content in contents] == [False, True, False, False]


def test_calls_that_a_user_sends_are_no_calls_of_the_model() -> None:
    sent = said(Content("user", (Part(text="do it"), Part(function_call=FunctionCall("1", "look")))), "user")

    assert shown(sent) == (Content.user("do it"),)


def test_a_call_without_an_id_is_given_one_and_one_with_the_id_of_another_beside_it_is_left_out() -> None:
    contents = shown(calling("", "1", "1"))

    ids = [call.id for call in contents[0].function_calls]
    assert len(ids) == 2
    assert all(ids)
    assert [response.id for response in contents[1].function_responses] == ids


def test_of_the_current_turn_alone_is_what_came_since_the_user_spoke() -> None:
    old = [said("old", "user"), said("gone")]
    new = [said("new", "user"), calling("1"), answering("1")]

    assert list(shown(*old, *new, current_turn=True)) == [event.content for event in new]
    assert texts(*old, current_turn=True) == ["old", "gone"]
    assert texts(said("only"), current_turn=True) == ["only"]


def test_the_current_turn_begins_with_another_agent_if_that_spoke_last() -> None:
    contents = shown(
        said("old", "user"), said("mine"), said("yours", "b"), said("mine again"), current_turn=True
    )

    assert len(contents) == 2
    assert contents[0].text.endswith("b said: yours")


def test_a_response_of_another_agent_begins_a_turn_too() -> None:
    contents = shown(
        said("old", "user"), calling("1", author="b"), answering("1", author="b"), current_turn=True
    )

    assert [content.parts[-1].text for content in contents] == [
        '\nlook answered b with {"ok": "", "id": "1"}'
    ]


def test_an_event_on_another_branch_begins_no_turn() -> None:
    events = [said("new", "user"), said("other", "b", branch="p.b")]

    assert texts(*events, branch="p.a", current_turn=True) == ["new"]


def test_a_late_answer_goes_on_with_the_turn_of_its_call() -> None:
    late = answering("1", author="user")

    assert (
        len(
            shown(
                said("old", "user"), said("gone"), said("do", "user"), calling("1"), late, current_turn=True
            )
        )
        == 3
    )


def test_the_turn_begins_with_the_newest_message_that_says_something() -> None:
    thought = said(Content("model", (Part(text="hm", thought=True),)), "b")
    answered = answering("0", author="user", said_back=" ")
    events = [said("old", "user"), said("gone"), said("new", "user"), calling("1"), answering("1")]

    assert texts(*events, thought, said(" ", "user"), answered, current_turn=True) == ["new", "", ""]


def test_what_is_only_white_space_is_left_out() -> None:
    blank = Content("user", (Part(text=" "), Part(text="\n")))

    assert texts(said("hi", "user"), said(" \n"), said(blank, "user"), said("done")) == ["hi", "done"]


@pytest.mark.parametrize("author", ["user", "a"])
def test_who_says_a_text_follows_from_its_author_whatever_role_it_was_given(author: str) -> None:
    one = (Part(text="hi"),)
    contents = shown(said(Content("assistant", one), author), said(Content("assistant", one * 2), author))

    assert {content.role for content in contents} == {"user" if author == "user" else "model"}


def test_a_call_with_the_id_of_an_earlier_one_is_given_another_and_keeps_its_response() -> None:
    turns = [calling("1"), answering("1", said_back="a"), calling("1"), answering("1", said_back="b")]
    contents = shown(said("hi", "user"), *turns, calling("1"), outcomes={"1": "stopped"})

    assert len({call.id for content in contents for call in content.function_calls}) == 3
    assert contents_problems(contents) == []
    told = [one.response for content in contents for one in content.function_responses]
    assert [one.get("ok", one.get("outcome")) for one in told] == ["a", "b", "stopped"]


def test_a_response_under_another_name_is_given_that_of_its_call() -> None:
    odd = Content("user", (Part(function_response=FunctionResponse("1", "see", {"ok": True})),))
    _, (response,) = (content.function_responses for content in shown(calling("1"), said(odd, "user")))

    assert response == FunctionResponse("1", "look", {"ok": True})


def test_a_model_that_is_asked_again_after_its_own_words_is_told_to_go_on() -> None:
    contents = shown(said("hi", "user"), said("done"))
    asked = asking(contents)

    assert asked[:2] == contents
    assert [content.role for content in asked] == ["user", "model", "user"]
    assert asking(asked) is asked


def test_a_conversation_that_begins_with_the_model_is_told_as_what_it_said_before() -> None:
    asked = asking(shown(calling("1"), answering("1")))

    assert [content.role for content in asked] == ["user", "model", "user"]
    assert contents_problems(asked) == []


def test_a_model_is_asked_something_even_if_nothing_was_said() -> None:
    (only,) = asking(shown(said(" ", "user")))

    assert only.role == "user"
    assert only.text


def test_a_call_of_another_agent_is_told_as_open_once_though_a_later_one_has_its_id() -> None:
    told = texts(calling("1", author="b"), calling("1", author="b"))

    assert [text.count("look answered b") for text in told] == [0, 1]
