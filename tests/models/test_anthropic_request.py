import json
from typing import Any

import pytest

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.anthropic_request import BLOCK_MARK, THOUGHT_MARK, anthropic_request
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.testing import anthropic_history

HELLO = Content.user("hello")
ASKED = {"role": "user", "content": [{"type": "text", "text": "hello"}]}


def body(*contents: Content, options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return anthropic_request("m", ModelRequest(contents=contents or (HELLO,), **fields), options or {})


def messages(*contents: Content) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = body(*contents)["messages"]
    return sent


def blocks(*parts: Part, role: str = "model") -> list[dict[str, Any]]:
    """Return what is sent of a message of these parts."""
    sent = messages(*([HELLO] if role == "model" else []), Content(role, parts), *[HELLO] * (role == "model"))
    return [block for message in sent for block in message["content"] if block != ASKED["content"][0]]


def answer(*ids: str, name: str = "add") -> Content:
    return Content("user", tuple(Part(function_response=FunctionResponse(one, name, {})) for one in ids))


def test_a_plain_request_holds_what_the_service_demands_and_nothing_else() -> None:
    assert body() == {"model": "m", "max_tokens": 8192, "messages": [ASKED]}


def test_the_instruction_is_the_system_prompt_unless_it_says_nothing() -> None:
    assert body(instruction="Be brief.")["system"] == "Be brief."
    assert "system" not in body(instruction=" \n")


def test_calls_and_their_results_keep_ids_and_order() -> None:
    calls = (FunctionCall("c1", "add", {"a": 1}), FunctionCall("c2", "now"))
    responses = (FunctionResponse("c1", "add", {"sum": "1 €"}), FunctionResponse("c2", "now"))
    answered = Content("user", tuple(Part(function_response=response) for response in responses))

    assert messages(HELLO, Content.model("Let me see.", calls=calls), answered) == [
        ASKED,
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": '{"sum": "1 €"}'},
                {"type": "tool_result", "tool_use_id": "c2", "content": "{}"},
            ],
        },
    ]


def test_messages_of_one_role_are_one_message_with_the_results_first() -> None:
    call = Content.model(calls=[FunctionCall("c1", "add")])
    sent = messages(HELLO, Content.user("you there?"), Content.model("Yes."), call, HELLO, answer("c1"))

    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [[block["type"] for block in message["content"]] for message in sent] == [
        ["text", "text"],
        ["text", "tool_use"],
        ["tool_result", "text"],
    ]
    assert anthropic_history.problems({"messages": sent}) == []


@pytest.mark.parametrize("nothing", ["", " ", "\n\t"])
def test_a_message_that_says_nothing_is_left_out_and_those_around_it_are_joined(nothing: str) -> None:
    silent = Content.user(nothing)
    sent = messages(HELLO, silent, Content.model("a"), silent, Content("model", (Part(text="b"),)), HELLO)

    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [block["text"] for block in sent[1]["content"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "sent"),
    [("functions.größe now", "functions_gr__e_now"), ("x" * 70, "x" * 64), ("a-B_1", "a-B_1")],
)
def test_a_name_that_a_model_made_up_cannot_keep_a_session_from_going_on(name: str, sent: str) -> None:
    assert [block["name"] for block in blocks(Part(function_call=FunctionCall("c1", name)))] == [sent]


def test_a_thought_goes_back_as_it_was_signed_and_where_it_stood() -> None:
    thought = Part(text=" Hm.\n", thought=True, thought_signature=THOUGHT_MARK + b"EqQB+/==")
    hidden = Part(text="", thought=True, thought_signature=THOUGHT_MARK + b"x")

    assert blocks(thought, Part(text="Yes."), hidden, Part(function_call=FunctionCall("c", "now"))) == [
        {"type": "thinking", "thinking": " Hm.\n", "signature": "EqQB+/=="},
        {"type": "text", "text": "Yes."},
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "tool_use", "id": "c", "name": "now", "input": {}},
    ]


def test_a_block_that_nobody_but_the_service_reads_goes_back_as_it_came() -> None:
    block = {"type": "redacted_thinking", "data": "Em\u00fc=", "scores": [0.5, float("inf")]}
    kept = Part(text="", thought=True, thought_signature=BLOCK_MARK + json.dumps(block).encode())

    sent, _ = blocks(kept, Part(text="Yes."))

    assert sent == {"type": "redacted_thinking", "data": "Em\u00fc=", "scores": [0.5, "Infinity"]}


@pytest.mark.parametrize("signature", [None, b"\x12\x05of another", b"anthropic:other:"])
def test_a_thought_that_the_service_has_not_signed_is_not_sent(signature: bytes | None) -> None:
    thought = Part(text="hm", thought=True, thought_signature=signature)

    assert blocks(thought, Part(text="Yes.")) == [{"type": "text", "text": "Yes."}]
    assert messages(HELLO, Content("model", (thought,)), Content("user", (thought,))) == [ASKED]


def test_the_signature_of_another_provider_leaves_its_call_or_text_as_they_are() -> None:
    call = Part(function_call=FunctionCall("c", "now"), thought_signature=b"\x12\x05of another")
    text = Part(text="Yes.", thought_signature=b"\x12\x05of another")

    assert blocks(call, text) == [
        {"type": "tool_use", "id": "c", "name": "now", "input": {}},
        {"type": "text", "text": "Yes."},
    ]


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [("image/png", "image"), ("image/webp", "image"), ("application/pdf", "document")],
)
def test_images_and_pdfs_are_sent_as_base64(mime_type: str, kind: str) -> None:
    sent = blocks(Part(text="what is this?"), Part(inline_data=Blob(mime_type, b"\x89PNG")), role="user")
    source = {"type": "base64", "media_type": mime_type, "data": "iVBORw=="}

    assert sent == [{"type": "text", "text": "what is this?"}, {"type": kind, "source": source}]


@pytest.mark.parametrize(("role", "mime_type"), [("user", "audio/wav"), ("model", "image/png")])
def test_inline_data_that_the_wire_cannot_carry_are_an_error(role: str, mime_type: str) -> None:
    with pytest.raises(ModelError, match="inline data") as caught:
        blocks(Part(inline_data=Blob(mime_type, b"")), role=role)

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_values_without_a_form_in_json_are_sent_as_text() -> None:
    values = {"nan": float("nan"), "far": [float("-inf")], "raw": b"bytes", "big": 2**63}
    sent = {"nan": "NaN", "far": ["-Infinity"], "raw": "Ynl0ZXM=", "big": 2**63}
    response = Part(function_response=FunctionResponse("c1", "add", values))

    assert blocks(Part(function_call=FunctionCall("c1", "add", values)))[0]["input"] == sent
    assert json.loads(blocks(response, role="user")[0]["content"]) == sent


def test_a_response_that_is_no_json_is_an_error_that_names_the_tool() -> None:
    with pytest.raises(ModelError, match="the response of 'add'") as caught:
        blocks(Part(function_response=FunctionResponse("c1", "add", {"x": object()})), role="user")

    assert caught.value.kind is ModelErrorKind.VALIDATION


def test_an_answer_that_the_model_is_to_go_on_with_does_not_end_in_space() -> None:
    sent = messages(HELLO, Content.model("{ "), Content.user("go on"), Content.model("{\n "))

    assert [message["content"][0]["text"] for message in sent] == ["hello", "{ ", "go on", "{"]


def test_tools_are_declared_with_the_schema_of_an_object() -> None:
    schema = {"type": "object", "properties": {"a": {"default": float("inf")}}}
    tools = (ToolDeclaration("add", "Adds.", schema), ToolDeclaration("now", "Tells.", {}))

    assert body(tools=tools)["tools"] == [
        {
            "name": "add",
            "description": "Adds.",
            "input_schema": {"type": "object", "properties": {"a": {"default": "Infinity"}}},
        },
        {"name": "now", "description": "Tells.", "input_schema": {"type": "object"}},
    ]


def test_a_stream_is_asked_for() -> None:
    assert body(streaming=True)["stream"] is True


def test_the_configuration_of_a_request_comes_before_the_options_of_the_model() -> None:
    options = {"temperature": 0, "top_k": 7, "max_tokens": 100}
    sent = body(options=options, generate_config={"temperature": 1, "stop_sequences": ("a", "b")})

    assert (sent["temperature"], sent["top_k"], sent["max_tokens"]) == (1, 7, 100)
    assert sent["stop_sequences"] == ["a", "b"]
    assert body(options=options, generate_config={"max_tokens": 5})["max_tokens"] == 5


@pytest.mark.parametrize("field", ["messages", "model", "stream", "system", "tools"])
def test_the_configuration_may_not_name_what_the_runtime_fills(field: str) -> None:
    with pytest.raises(ModelError, match=f"generate_config may not hold {field}") as caught:
        body(generate_config={field: 1})

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


@pytest.mark.parametrize("place", ["options", "generate_config"])
def test_an_answer_may_be_as_long_as_usual_beside_what_is_thought(place: str) -> None:
    thinking = {"type": "enabled", "budget_tokens": 10_000}
    sent = body(**{place: {"thinking": thinking}})

    assert (sent["thinking"], sent["max_tokens"]) == (thinking, 18_192)
    assert body(**{place: {"thinking": thinking, "max_tokens": 11_000}})["max_tokens"] == 11_000
    assert body(**{place: {"thinking": {"type": "adaptive"}}})["max_tokens"] == 8192


# Answers that match a schema


def form(schema: dict[str, Any]) -> dict[str, Any]:
    sent: dict[str, Any] = body(output_schema=schema)["output_config"]["format"]
    assert sent.pop("type") == "json_schema"
    made: dict[str, Any] = sent.pop("schema")
    assert sent == {}
    return made


def test_a_schema_for_the_answer_stands_beside_what_else_is_said_of_it() -> None:
    schema = {"type": "string"}
    sent = body(options={"output_config": {"effort": "low", "format": None}}, output_schema=schema)

    assert sent["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}


def test_a_form_of_the_answer_is_the_configurations_or_the_schemas_and_not_both() -> None:
    given = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "string"}}}}

    assert body(generate_config=given)["output_config"] == given["output_config"]
    with pytest.raises(ModelError, match=r"output_config\.format") as caught:
        body(generate_config=given, output_schema={"type": "string"})
    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_objects_of_a_schema_allow_only_what_they_name_since_the_service_demands_it() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
    closed = {**inner, "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {"properties": inner, "list": {"type": "array", "items": inner}},
        "required": ["list"],
        "$defs": {"Item": inner},
    }

    assert form(schema) == {
        "type": "object",
        "properties": {"properties": closed, "list": {"type": "array", "items": closed}},
        "required": ["list"],
        "$defs": {"Item": closed},
        "additionalProperties": False,
    }
    # Nothing else would be a dict of the same meaning: the service says so, and not an empty answer.
    assert form({"type": "object", "additionalProperties": {"type": "integer"}}) == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 5, "description": "Stars."},
            {"type": "integer", "description": 'Stars. It must keep to {"minimum": 1, "maximum": 5}.'},
        ),
        (
            {"type": "string", "minLength": 1, "format": "path"},
            {"type": "string", "description": 'It must keep to {"minLength": 1, "format": "path"}.'},
        ),
        (
            {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 2},
            {
                "type": "array",
                "items": {"type": "number", "description": 'It must keep to {"exclusiveMinimum": 0}.'},
                "description": 'It must keep to {"minItems": 2}.',
            },
        ),
        (
            {"type": "array", "minItems": 1, "items": {"type": "string", "format": "date"}},
            {"type": "array", "minItems": 1, "items": {"type": "string", "format": "date"}},
        ),
        (
            {"oneOf": [{"const": "a"}, True], "discriminator": {"propertyName": "kind"}},
            {"anyOf": [{"const": "a"}, True]},
        ),
        (
            {"$ref": "#/$defs/A", "description": "Which.", "$defs": {"A": {"enum": [1]}}},
            {"$ref": "#/$defs/A", "$defs": {"A": {"enum": [1]}}},
        ),
    ],
    ids=["number", "text", "list", "kept", "one of", "reference"],
)
def test_what_the_service_would_refuse_of_a_schema_is_told_to_the_model(
    schema: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert form(schema) == sent


@pytest.mark.parametrize("mark", [THOUGHT_MARK + b"EqQB", BLOCK_MARK + b'{"type": "redacted_thinking"}'])
@pytest.mark.parametrize("text", ["", "Hm."])
def test_a_message_does_not_end_in_a_thought_since_the_service_refuses_that(mark: bytes, text: str) -> None:
    thought = Part(text="", thought=True, thought_signature=mark)
    said = Content("model", (Part(text=text), thought, Part(text="\n"), thought))
    sent = body(HELLO, said, HELLO)

    assert anthropic_history.problems(sent) == []
    assert len(sent["messages"]) == (3 if text else 1)
