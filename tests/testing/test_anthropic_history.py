"""The checker of Anthropic's conversations, by what the real service takes and what it refuses."""

from typing import Any

import pytest

from intermission.testing.anthropic_history import problems, tool_problems

USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "Hello."}


def text(said: object) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: object = "call-1", name: object = "look", given: object = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if given is None else given}


def result(call_id: str = "call-1", content: object = "{}") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def user(*blocks: object) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: object) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


IMAGE: dict[str, Any] = {"type": "image", "source": {}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [USER, SAID, USER],
        [user(IMAGE, text("what is it?"))],
        [USER, assistant(use()), user(result())],
        [USER, assistant(THINKING, text("One moment"), use()), user(result(), text("and?"))],
        [USER, assistant(use("a"), use("b")), user(result("b"), result("a", [text("seen")]))],
        [USER, assistant(use("a")), user(result("a", None)), assistant(use("b")), user(result("b"))],
    ],
)
def test_a_legal_conversation_has_no_problems(messages: list[object]) -> None:
    assert problems({"system": "Be brief.", "messages": messages}) == []
    assert problems({"messages": messages}) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (None, "messages must be a list that is not empty"),
        ([], "messages must be a list that is not empty"),
        ([7], "messages[0]: there is no role 'None' + messages[0]: the None says nothing"),
        ([{"role": "system", "content": [IMAGE]}, USER], "messages[0]: there is no role 'system'"),
        ([SAID, USER], "messages[0]: a conversation does not begin with the assistant"),
        ([USER, SAID], "messages[1]: a conversation does not end with the assistant"),
        ([USER, USER], "messages[1]: the user speaks twice in a row"),
        ([USER, SAID, SAID, USER], "messages[2]: the assistant speaks twice in a row"),
        ([user()], "messages[0]: the user says nothing"),
        ([{"role": "user"}], "messages[0]: the user says nothing"),
        ([{"role": "user", "content": " "}], "messages[0]: content[0]: the text is empty"),
        ([user(text("a"), text(""))], "messages[0]: content[1]: the text is empty"),
        ([user({"type": "song"})], "messages[0]: content[0]: there is no block of type 'song'"),
        ([user(7)], "messages[0]: content[0]: there is no block of type 'None'"),
        ([user(THINKING)], "messages[0]: content[0]: a thinking block of the user"),
        (
            [user(use())],
            "messages[0]: content[0]: a tool_use block of the + messages[1]: no tool_result",
        ),
        (
            [USER, assistant(use()), assistant(result()), USER],
            "messages[2]: the assistant speaks twice in a row + messages[2]: content[0]: a tool_result block",
        ),
        ([USER, assistant(use())], "messages[2]: no tool_result + messages[1]: a conversation does not end"),
        ([USER, assistant(use()), USER], "messages[2]: no tool_result answers 'call-1'"),
        ([USER, assistant(use("a"), use("b")), user(result("a"))], "messages[2]: no tool_result answers 'b'"),
        (
            [USER, assistant(use()), USER, SAID, user(result())],
            "messages[2]: no tool_result answers 'call-1' + messages[4]: a tool_result for 'call-1', which",
        ),
        ([user(result())], "messages[0]: a tool_result for 'call-1', which the message before it does not"),
        ([USER, assistant(use()), user(result(), result())], "messages[2]: two results for one call"),
        ([USER, assistant(use()), user(text("x"), result())], "messages[2]: something stands before its"),
        ([USER, assistant(use()), user(result(content=7))], "messages[2]: the content of a tool_result must"),
        ([USER, assistant(use("a:b")), user(result("a:b"))], "messages[1]: a call's id must be of letters"),
        ([USER, assistant(use("")), user(result(""))], "messages[1]: a call's id must be of letters"),
        ([USER, assistant(use("a"), use("a")), user(result("a"))], "messages[1]: another call has the id"),
        (
            [USER, assistant(use()), user(result()), assistant(use()), user(result())],
            "messages[3]: another call has the id 'call-1'",
        ),
        ([USER, assistant(use(name="two words")), user(result())], "messages[1]: 'two words' cannot be"),
        ([USER, assistant(use(given=[])), user(result())], "messages[1]: the input of 'look' must be"),
    ],
)
def test_what_the_service_would_refuse_is_a_problem_with_its_place(messages: object, problem: str) -> None:
    found = problems({"messages": messages})

    assert len(found) == len(problem.split(" + ")), found
    assert all(map(str.startswith, found, problem.split(" + "))), found


@pytest.mark.parametrize("system", ["", " ", [], [text("")], [IMAGE]])
def test_a_system_that_says_nothing_is_a_problem(system: object) -> None:
    assert problems({"system": system, "messages": [USER]}) == ["the system is empty; leave it out"]


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        (None, None),
        ([{"name": "look", "input_schema": {"type": "object"}}], None),
        ([], "tools must be a list that is not empty; leave it out"),
        ([7], "tools[0]: None cannot be the name of a tool"),
        (
            [{"name": "a b", "input_schema": {"type": "object"}}],
            "tools[0]: 'a b' cannot be the name of a tool",
        ),
        ([{"name": "look"}], "tools[0]: the input_schema of 'look' must be that of an object"),
        (
            [{"name": "look", "input_schema": {"type": "object"}}] * 2,
            "tools[1]: two tools have the name 'look'",
        ),
    ],
)
def test_tools_have_names_of_their_own_and_take_objects(tools: object, problem: str | None) -> None:
    assert tool_problems(tools)[:1] == ([] if problem is None else [problem])


def test_thoughts_are_signed_and_what_the_service_did_itself_is_the_assistants() -> None:
    search: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    unsigned = {"type": "thinking", "thinking": "hm"}

    assert problems({"messages": [USER, assistant(search, found, text("So.")), USER]}) == []
    assert problems({"messages": [USER, assistant(unsigned, text("So.")), USER]}) == [
        "messages[1]: content[0]: what was thought is not signed"
    ]
    assert problems({"messages": [user(search)]}) == [
        "messages[0]: content[0]: a server_tool_use block of the user"
    ]
