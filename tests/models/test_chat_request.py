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


@pytest.mark.parametrize(
    ("name", "sent"),
    [("functions.größe now", "functions_gr__e_now"), ("x" * 70, "x" * 64), ("a-B_1", "a-B_1")],
)
def test_a_name_that_a_model_made_up_cannot_keep_a_session_from_going_on(name: str, sent: str) -> None:
    [message] = messages(Content.model("", calls=[FunctionCall("c1", name, {})]))

    assert message["tool_calls"][0]["function"]["name"] == sent


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


def body(**fields: Any) -> dict[str, Any]:
    options = {"temperature": 0, "seed": 7}
    return chat_request("m", ModelRequest(contents=(Content.user("hello"),), **fields), options)


PERSON: dict[str, Any] = {
    "title": "A person!",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def test_the_configuration_of_a_request_comes_before_the_options_of_the_model() -> None:
    sent = body(generate_config={"temperature": 1, "max_tokens": 5, "stop": ("a", "b")})

    assert (sent["temperature"], sent["seed"], sent["max_tokens"]) == (1, 7, 5)
    assert sent["stop"] == ["a", "b"]


@pytest.mark.parametrize("field", ["messages", "model", "stream", "stream_options", "tools"])
def test_the_configuration_may_not_name_what_the_runtime_fills(field: str) -> None:
    with pytest.raises(ModelError, match=f"generate_config may not hold {field}") as caught:
        body(generate_config={field: 1})

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_a_form_of_the_answer_is_the_configurations_or_the_schemas_and_not_both() -> None:
    form = {"type": "json_object"}

    assert body(generate_config={"response_format": form})["response_format"] == form
    with pytest.raises(ModelError, match="response_format"):
        body(generate_config={"response_format": form}, output_schema=PERSON)


def test_a_schema_for_the_answer_is_sent_with_a_name_that_the_service_takes() -> None:
    assert body(output_schema=PERSON)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "A_person_", "schema": PERSON, "strict": True},
    }
    assert body(output_schema={})["response_format"]["json_schema"]["name"] == "answer"
    assert "response_format" not in body()


@pytest.mark.parametrize(
    ("change", "strict"),
    [
        ({}, True),
        ({"additionalProperties": True}, False),
        ({"required": []}, False),
        ({"properties": {"name": {"type": "object"}}}, False),
        ({"properties": {"name": {"anyOf": [PERSON, {"type": "null"}]}}}, True),
        ({"properties": {"name": {"type": "array", "items": {"type": "object"}}}}, False),
        ({"$defs": {"Other": PERSON}}, True),
        ({"$defs": {"Other": {"type": "object", "properties": {"a": {}}}}}, False),
    ],
)
def test_a_schema_is_enforced_to_the_letter_only_if_the_service_can(
    change: dict[str, Any], strict: bool
) -> None:
    assert body(output_schema=PERSON | change)["response_format"]["json_schema"]["strict"] is strict


@pytest.mark.parametrize(
    "field",
    [
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"$ref": "#/$defs/City", "description": "Where."},
        {"type": "string", "default": "x"},
        {"type": "string", "format": "uri"},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
        {"type": "array", "items": {"type": "object"}},
    ],
    ids=lambda field: next(reversed(field)),
)
def test_a_schema_with_words_that_the_service_cannot_enforce_is_not_enforced(field: dict[str, Any]) -> None:
    city: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    closed: dict[str, Any] = {
        "type": "object",
        "required": ["default"],
        "additionalProperties": False,
        "$defs": {"City": city},
    }

    def strict(schema: dict[str, Any]) -> Any:
        sent = body(output_schema=closed | {"properties": {"default": schema}})
        return sent["response_format"]["json_schema"]["strict"]

    assert strict({"anyOf": [{"$ref": "#/$defs/City"}, {"type": "null"}], "description": "Where."}) is True
    assert strict(field) is False

    root = body(output_schema={"$defs": {"City": city}, "$ref": "#/$defs/City"})["response_format"]
    assert root["json_schema"]["strict"] is False
