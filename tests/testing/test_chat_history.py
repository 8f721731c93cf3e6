"""The history checker, by what the real service takes and what it refuses."""

from typing import Any

import pytest

from intermission import Content, ModelError
from intermission.models import ChatCompletions, ModelRequest, ToolDeclaration
from intermission.testing import ModelServer
from intermission.testing.chat_history import problems, tool_problems

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "Hello."}


def call(name: str = "look", call_id: str = "call-1", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*asked: object, content: object = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(asked)}


def answer(call_id: str = "call-1", content: object = "{}") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [SYSTEM, USER],
        [SYSTEM, {"role": "developer", "content": "Really."}, USER],
        [USER, SAID, USER],
        [USER, USER],
        [USER, calls(call()), answer()],
        [USER, calls(call(), content="One moment"), answer(), SAID, USER],
        [USER, calls(call(), call("see", "call-2")), answer("call-2"), answer("call-1")],
        [USER, calls(call()), answer(), calls(call()), answer()],
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    ],
)
def test_a_legal_history_has_no_problems(messages: list[object]) -> None:
    assert problems(messages) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (None, "messages must be a list"),
        ([], "messages must be a list"),
        ([7], "messages[0]: there is no role None"),
        ([{"role": "bot", "content": "x"}], "messages[0]: there is no role 'bot'"),
        ([SAID], "messages[0]: a conversation does not begin with the assistant"),
        ([SYSTEM, SAID], "messages[1]: a conversation does not begin with the assistant"),
        ([answer()], "messages[0]: a conversation does not begin with the tool"),
        ([USER, SYSTEM], "messages[1]: a system message must stand at the beginning"),
        ([{"role": "user", "content": ""}], "messages[0]: the user says nothing"),
        ([{"role": "user"}], "messages[0]: the user says nothing"),
        ([{"role": "system", "content": ""}, USER], "messages[0]: the system says nothing"),
        ([USER, {"role": "assistant", "content": ""}], "messages[1]: the assistant's content is empty"),
        ([USER, {"role": "assistant", "content": None}], "messages[1]: the assistant neither says nor calls"),
        ([USER, calls()], "messages[1]: tool_calls must be a list that is not empty"),
        ([USER, calls(call())], "messages[2]: no tool message answers 'call-1'"),
        ([USER, calls(call()), USER], "messages[2]: no tool message answers 'call-1' before it"),
        ([USER, calls(call()), SAID, answer()], "messages[2]: no tool message answers 'call-1' before it"),
        ([USER, calls(call()), answer(), answer()], "messages[3]: 'call-1' is no call that waits"),
        ([USER, calls(call()), answer("call-2")], "messages[2]: 'call-2' is no call that waits"),
        ([USER, SAID, answer()], "messages[2]: 'call-1' is no call that waits"),
        ([USER, calls(call(), call()), answer()], "messages[1]: two calls have the id 'call-1'"),
        ([USER, calls(call(call_id="")), USER], "messages[1]: a call's id must be a text of 1 to 40"),
        ([USER, calls(call(call_id="x" * 41)), answer("x" * 41)], "messages[1]: a call's id must be a text"),
        ([USER, calls(call("two words")), answer()], "messages[1]: 'two words' cannot be the name"),
        ([USER, calls(call(arguments="[]")), answer()], "messages[1]: the arguments of 'look' must be"),
        ([USER, calls(call(arguments="{")), answer()], "messages[1]: the arguments of 'look' must be"),
        ([USER, calls({"id": "call-1"}), answer()], "messages[1]: a call must have the type 'function'"),
        ([USER, calls(7), USER], "messages[1]: a call's id must be a text"),
        ([USER, calls(call()), answer(content={})], "messages[2]: the content of a tool message must be"),
    ],
)
def test_what_the_service_would_refuse_is_a_problem_with_its_place(messages: object, problem: str) -> None:
    found = problems(messages)

    assert any(known.startswith(problem) for known in found), found


def tool(name: object, kind: str = "function") -> dict[str, Any]:
    return {"type": kind, "function": {"name": name, "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([], "must be a list that is not empty"),
        ({}, "must be a list that is not empty"),
        ([tool("größe")], "tools[0]: 'größe' cannot be the name"),
        ([tool("a"), tool("x" * 65)], "tools[1]: 'xxx"),
        ([tool("a"), tool("a")], "tools[1]: two functions have the name 'a'"),
        ([tool("a", "custom")], "tools[0]"),
        (["a"], "tools[0]: None cannot be the name"),
    ],
)
def test_tools_that_the_service_would_refuse_are_a_problem(tools: object, problem: str) -> None:
    [found] = tool_problems(tools)
    assert problem in found


def test_tools_with_names_of_their_own_are_no_problem() -> None:
    assert tool_problems([tool("a"), tool("B-2_c")]) == []
    assert tool_problems(None) == []


def test_a_strict_server_refuses_such_tools() -> None:
    odd = ToolDeclaration("größe", "Tell the size.", {"type": "object", "properties": {}})
    asked = ModelRequest(contents=(Content.user("hi"),), tools=(odd,))
    with ModelServer("never") as server:
        with pytest.raises(ModelError, match="the tools are not legal"):
            list(ChatCompletions("any", base_url=server.url).generate(asked))
        assert server.requests == []
