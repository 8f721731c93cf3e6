"""The checker of conversations, by what a client of any provider could send and what it could not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.testing import contents_problems
from intermission.testing.contents_history import HistoryRules
from wire_shapes import problems_on_the_wire

USER = Content.user("hello")
SAID = Content.model("Hello.")


def calls(*ids: str, text: str = "") -> Content:
    return Content.model(text, calls=[FunctionCall(each, f"look_{each}", {}) for each in ids])


def answers(*ids: str, role: str = "user", name: str | None = None) -> Content:
    responses = [FunctionResponse(each, name or f"look_{each}", {"ok": True}) for each in ids]
    return Content(role, tuple(Part(function_response=one) for one in responses))


def user(*parts: Part) -> Content:
    return Content("user", parts)


BOTH = Part(text="x", function_call=FunctionCall("1", "look_1", {}))


@pytest.mark.parametrize(
    "contents",
    [
        [USER],
        [USER, USER],
        [USER, SAID, SAID, USER],
        [USER, calls("1"), answers("1")],
        [USER, calls("1", "2", text="One moment"), answers("1", "2"), calls("3"), answers("3"), USER],
        [USER, calls("1"), user(*answers("1").parts, Part(text="and?"))],
        [USER, calls("1"), answers("1"), SAID, USER],
        [user(Part(inline_data=Blob("image/png", b"1")))],
        [user(Part(text="a"), Part(text=" "), Part(text="b"))],
        [USER, Content("model", (Part(text="", thought=True, thought_signature=b"s"), *SAID.parts)), USER],
    ],
)
def test_a_legal_conversation_has_no_problems(contents: list[Content]) -> None:
    assert contents_problems(contents) == []


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ([], "the conversation is empty"),
        ([Content("bot", USER.parts)], "contents[0]: there is no role 'bot'"),
        ([SAID, USER], "contents[0]: a conversation does not begin with the model"),
        ([user()], "contents[0]: the user says nothing"),
        ([user(Part(text=" \n"))], "contents[0]: the user says nothing"),
        ([user(Part(text="hm", thought=True))], "contents[0]: the user says nothing"),
        ([user(Part(text="a"), Part(text=""))], "contents[0]: parts[1] is an empty text"),
        ([user(Part(text="a"), Part())], "contents[0]: parts[1] is 0 things instead of one"),
        ([USER, Content("model", (BOTH,)), answers("1")], "contents[1]: parts[0] is 2 things instead of one"),
        ([Content("user", calls("1").parts), answers("1")], "contents[0]: calls of the user"),
        ([USER, calls("1"), answers("1", role="model"), USER], "contents[2]: responses of the model"),
        ([USER, calls("1"), answers("1"), calls("2"), USER], "contents[4]: it does not answer '2'"),
        ([USER, calls("1"), USER], "contents[2]: it does not answer '1'"),
        ([USER, calls("1", "2"), answers("1")], "contents[2]: it does not answer '2'"),
        ([USER, calls("1"), USER, answers("1")], "contents[2]: it does not + contents[3]: it answers '1'"),
        ([USER, answers("1")], "contents[1]: it answers '1', which nobody called right before"),
        ([USER, calls("1"), answers("1", "1")], "contents[2]: it answers a call twice"),
        ([USER, calls("1", "2"), answers("2", "1")], "contents[2]: its responses are not in the order"),
        ([USER, calls("1"), answers("1", name="see")], "contents[2]: the response to '1' has the name 'see'"),
        (
            [USER, calls("1"), user(Part(text="and?"), *answers("1").parts)],
            "contents[2]: something stands before its responses",
        ),
        ([USER, calls(""), answers("")], "contents[1]: a call has no id"),
        ([USER, calls("1", "1"), answers("1")], "contents[1]: another call has the id '1'"),
        (
            [USER, calls("1"), answers("1"), calls("1"), answers("1")],
            "contents[3]: another call has the id '1'",
        ),
    ],
)
@pytest.mark.parametrize("rules", ["openai", "anthropic", "gemini"])
def test_what_no_client_could_send_is_a_problem_by_each_rules(
    contents: list[Content], problem: str, rules: HistoryRules
) -> None:
    found = contents_problems(contents, rules)

    assert len(found) == len(problem.split(" + ")), found
    assert all(map(str.startswith, found, problem.split(" + "))), found


def test_calls_at_the_very_end_are_answered_by_nothing() -> None:
    assert contents_problems([USER, calls("1", "2")], "openai") == ["contents[2]: nothing answers '1', '2'"]


LONG = "x" * 41


@pytest.mark.parametrize(
    ("contents", "refusing"),
    [
        ([USER, SAID], {"anthropic", "gemini"}),
        ([USER, calls(LONG), answers(LONG)], {"openai"}),
        ([USER, calls("a:b"), answers("a:b")], {"anthropic"}),
    ],
)
def test_what_one_provider_refuses_another_may_take(contents: list[Content], refusing: set[str]) -> None:
    every: list[HistoryRules] = ["openai", "anthropic", "gemini"]

    assert {rules for rules in every if contents_problems(contents, rules)} == refusing
    assert len(contents_problems(contents)) == 1


def test_rules_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no rules 'mine': there are openai, anthropic, gemini"):
        contents_problems([USER], "mine")  # type: ignore[arg-type]  # that is what is refused


CONTENTS = st.sampled_from(
    [
        *(USER, SAID, calls("1"), calls("2", "3"), calls("1", "2"), answers("1"), answers("2", "3")),
        *(answers("3", "2"), answers("1", name="see"), calls("4", text="One moment"), answers("4")),
        *(user(*answers("1").parts, Part(text="and?")), user(Part(text=" "), *USER.parts), user()),
    ]
)


@given(st.lists(CONTENTS, min_size=1, max_size=8))
def test_a_conversation_without_problems_needs_only_its_roles_joined_to_be_taken_by_each_provider(
    contents: list[Content],
) -> None:
    if not contents_problems(contents):
        assert problems_on_the_wire(contents) == {}
