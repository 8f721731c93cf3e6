"""The checker of Gemini's conversations, by what the real service takes and what it refuses."""

from typing import Any

import pytest

from intermission.testing.gemini_history import problems


def text(said: object) -> dict[str, Any]:
    return {"text": said}


def call(name: object = "look", args: object = None, **more: object) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {} if args is None else args, **more}}


def response(name: object = "look", given: object = None, **more: object) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {} if given is None else given, **more}}


def user(*parts: object) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: object) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


USER, SAID = user(text("hello")), model(text("Hello."))
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "MQ=="}}


@pytest.mark.parametrize(
    "contents",
    [
        [USER],
        [USER, SAID, USER],
        [user(IMAGE, text("what is it?"))],
        [USER, model(call()), user(response())],
        [USER, model({"text": "hm", "thought": True}, text("One moment"), call()), user(response())],
        [USER, model(call("a"), call("b")), user(response("a"), response("b"))],
        [USER, model(call("a", id="1"), call("a", id="2")), user(response("a", id="1"), response("a"))],
        [USER, model(call()), user(response()), model(call()), user(response(), text("and?"))],
        [USER, model({"functionCall": {"name": "look"}, "thoughtSignature": "s"}), user(response())],
        [USER, model(text("Hello."), {"text": "", "thoughtSignature": "s"}), USER],
    ],
)
def test_a_legal_conversation_has_no_problems(contents: list[object]) -> None:
    assert problems({"systemInstruction": {"parts": [text("Be brief.")]}, "contents": contents}) == []
    assert problems({"contents": contents}) == []


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (None, "contents must be a list that is not empty"),
        ([], "contents must be a list that is not empty"),
        ([7], "contents[0]: there is no role 'None' + contents[0]: there are no parts"),
        ([{"role": "assistant", "parts": [text("x")]}, USER], "contents[0]: there is no role 'assistant'"),
        ([SAID, USER], "contents[0]: a conversation does not begin with the model"),
        ([USER, SAID], "contents[1]: a conversation does not end with the model"),
        ([USER, USER], "contents[1]: the user speaks twice in a row"),
        ([USER, SAID, SAID, USER], "contents[2]: the model speaks twice in a row"),
        ([user()], "contents[0]: there are no parts"),
        ([{"role": "user"}], "contents[0]: there are no parts"),
        ([user(text(""))], "contents[0]: parts[0]: the text is empty"),
        ([user({})], "contents[0]: parts[0] is 0 things instead of one"),
        ([user({**IMAGE, "text": "x"})], "contents[0]: parts[0] is 2 things instead of one"),
        ([user(call())], "contents[0]: a functionCall of the user + contents[1]: 0 responses to 1 calls"),
        (
            [USER, model(call()), model(response()), USER],
            "contents[2]: the model speaks twice in a row + contents[2]: a functionResponse of the model",
        ),
        ([USER, model(call())], "contents[2]: 0 responses to 1 calls + contents[1]: a conversation does not"),
        ([USER, model(call()), USER], "contents[2]: 0 responses to 1 calls"),
        ([USER, model(call("a"), call("b")), user(response("a"))], "contents[2]: 1 responses to 2 calls"),
        ([USER, model(call()), user(response(), response())], "contents[2]: 2 responses to 1 calls"),
        ([USER, SAID, user(response())], "contents[2]: 1 responses to 0 calls"),
        (
            [USER, model(call("a"), call("b")), user(response("b"), response("a"))],
            "contents[2]: a response of 'b' stands where + contents[2]: a response of 'a' stands where",
        ),
        (
            [USER, model(call(id="1"), call(id="2")), user(response(id="2"), response(id="1"))],
            "contents[2]: the response '2' stands where '1' was + contents[2]: the response '1' stands where",
        ),
        (
            [USER, model(call("a b")), user(response("a b"))],
            "contents[1]: 'a b' + contents[2]: 'a b'",
        ),
        ([USER, model(call(args=[])), user(response())], "contents[1]: the arguments of 'look' must be"),
        ([USER, model(call()), user(response(given=[]))], "contents[2]: the response of 'look' must be"),
        (
            [USER, model(call()), user({"functionResponse": {"name": "look"}})],
            "contents[2]: the response of 'look' is missing",
        ),
    ],
)
def test_what_the_service_would_refuse_is_a_problem_with_its_place(contents: object, problem: str) -> None:
    found = problems({"contents": contents})

    assert len(found) == len(problem.split(" + ")), found
    assert all(map(str.startswith, found, problem.split(" + "))), found


@pytest.mark.parametrize(
    ("system", "problem"), [({}, "there are no parts"), ({"parts": [text("")]}, "empty")]
)
def test_a_system_instruction_that_says_nothing_is_a_problem(system: object, problem: str) -> None:
    [found] = problems({"systemInstruction": system, "contents": [USER]})

    assert found.startswith("systemInstruction: ")
    assert problem in found
