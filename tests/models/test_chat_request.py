import json
from typing import Any

import pytest

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.chat_request import chat_request


def messages(*contents: Content, instruction: str = "") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = chat_request(
        "m", ModelRequest(contents=contents, instruction=instruction), {}
    )["messages"]
    return sent


def test_the_instruction_comes_first_as_the_system_message() -> None:
    assert messages(Content.user("hello"), instruction="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]


def test_calls_and_their_responses_keep_ids_and_order() -> None:
    calls = (FunctionCall("c1", "add", {"a": 1}), FunctionCall("c2", "now", {}))
    responses = (FunctionResponse("c1", "add", {"sum": "1 €"}), FunctionResponse("c2", "now", {}))
    answered = Content("user", tuple(Part(function_response=response) for response in responses))

    assistant, first, second = messages(Content.model("Let me see.", calls=calls), answered)

    assert assistant == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
        ],
    }
    assert first == {"role": "tool", "tool_call_id": "c1", "content": '{"sum": "1 €"}'}
    assert second == {"role": "tool", "tool_call_id": "c2", "content": "{}"}


def test_text_beside_a_response_follows_it() -> None:
    response = Part(function_response=FunctionResponse("c1", "add", {}))
    sent = messages(Content("user", (Part(text="and?"), response)))

    assert [message["role"] for message in sent] == ["tool", "user"]


def test_calls_without_text_have_null_as_content() -> None:
    (message,) = messages(Content.model(calls=[FunctionCall("c1", "now")]))

    assert message["content"] is None


def test_thoughts_are_not_sent() -> None:
    thought = Part(text="hm", thought=True)
    sent = messages(
        Content("model", (thought, Part(text="yes"))),
        Content("model", (thought,)),
        Content("user", (thought,)),
    )

    assert sent == [{"role": "assistant", "content": "yes"}]


def test_an_image_is_sent_as_a_data_url() -> None:
    image = Part(inline_data=Blob("image/png", b"\x89PNG"))
    (message,) = messages(Content("user", (Part(text="what is this?"), image)))

    assert message["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]


@pytest.mark.parametrize(("role", "mime_type"), [("user", "audio/wav"), ("model", "image/png")])
def test_inline_data_that_the_wire_cannot_carry_are_an_error(role: str, mime_type: str) -> None:
    with pytest.raises(ModelError, match="inline data") as caught:
        messages(Content(role, (Part(inline_data=Blob(mime_type, b"")),)))

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_values_without_a_form_in_json_are_sent_as_text() -> None:
    values = {"nan": float("nan"), "far": [float("-inf")], "raw": b"bytes", "big": 2**63}
    sent = {"nan": "NaN", "far": ["-Infinity"], "raw": "Ynl0ZXM=", "big": 2**63}
    response = Part(function_response=FunctionResponse("c1", "add", values))

    call, answer = messages(
        Content.model(calls=[FunctionCall("c1", "add", values)]), Content("user", (response,))
    )

    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == sent
    assert json.loads(answer["content"]) == sent


def test_a_schema_may_hold_values_without_a_form_in_json() -> None:
    tool = ToolDeclaration("wait", "Waits.", {"properties": {"limit": {"default": float("inf")}}})
    body = chat_request("m", ModelRequest(contents=(), tools=(tool,)), {})

    assert body["tools"][0]["function"]["parameters"] == {"properties": {"limit": {"default": "Infinity"}}}


def endless() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [{1, 2}, object(), endless()])
def test_what_is_no_json_is_an_error_that_names_the_tool(value: object) -> None:
    with pytest.raises(ModelError, match="the response of 'add'") as caught:
        messages(Content("user", (Part(function_response=FunctionResponse("c1", "add", {"x": value})),)))

    assert caught.value.kind is ModelErrorKind.VALIDATION


def test_tools_are_declared_with_their_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = ToolDeclaration("add", "Adds.", schema)
    body = chat_request("m", ModelRequest(contents=(), tools=(tool,)), {})

    assert body["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}}
    ]


def test_a_plain_request_names_neither_stream_nor_tools() -> None:
    body = chat_request("m", ModelRequest(contents=()), {"temperature": 0})

    assert body == {"model": "m", "messages": [], "temperature": 0}


def test_a_streaming_request_asks_for_the_usage_too() -> None:
    body = chat_request("m", ModelRequest(contents=(), streaming=True), {})

    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    json.dumps(body)
