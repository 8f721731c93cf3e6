import math
from typing import Any

import pytest

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.ollama_request import ollama_request
from intermission.testing.ollama_wire import ollama_problems


def messages(*contents: Content, instruction: str = "") -> list[dict[str, Any]]:
    request = ModelRequest(contents=contents, instruction=instruction)
    sent: list[dict[str, Any]] = ollama_request("m", request, {})["messages"]
    return sent


def body(options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return ollama_request("m", ModelRequest(contents=(Content.user("hi"),), **fields), options or {})


def test_the_instruction_comes_first_as_the_system_message() -> None:
    assert messages(Content.user("hello"), instruction="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]


def test_calls_have_their_arguments_as_objects_and_responses_name_their_tool() -> None:
    calls = (FunctionCall("c1", "add", {"a": math.inf}), FunctionCall("c2", "größe", {}))
    responses = (FunctionResponse("c1", "add", {"sum": "1 €"}), FunctionResponse("c2", "größe", {}))
    answered = Content(
        "user", (*(Part(function_response=response) for response in responses), Part(text="?"))
    )

    sent = messages(Content.user("hi"), Content.model("Let me see.", calls=calls), answered)

    assert sent[1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": "Infinity"}}},
                {"id": "c2", "type": "function", "function": {"name": "gr__e", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_name": "add", "tool_call_id": "c1", "content": '{"sum": "1 €"}'},
        {"role": "tool", "tool_name": "gr__e", "tool_call_id": "c2", "content": "{}"},
        {"role": "user", "content": "?"},
    ]
    assert ollama_problems(sent) == []


def test_images_stand_beside_the_text_of_their_message() -> None:
    image = Part(inline_data=Blob("image/png", b"\x00\xff"))

    assert messages(Content("user", (Part(text="what?"), image))) == [
        {"role": "user", "content": "what?", "images": ["AP8="]}
    ]
    assert messages(Content("user", (image,))) == [{"role": "user", "content": "", "images": ["AP8="]}]


@pytest.mark.parametrize(
    "content",
    [
        Content("user", (Part(inline_data=Blob("application/pdf", b"x")),)),
        Content("model", (Part(inline_data=Blob("image/png", b"x")),)),
    ],
    ids=["no image", "of the model"],
)
def test_what_the_wire_cannot_carry_is_an_error_that_says_so(content: Content) -> None:
    with pytest.raises(ModelError, match="inline data") as refusal:
        messages(content)
    assert refusal.value.kind is ModelErrorKind.CONFIGURATION


def test_thoughts_and_what_is_empty_are_not_sent() -> None:
    thought = Part(text="hm", thought=True, thought_signature=b"s")

    assert messages(Content("model", (thought,)), Content("user", (thought,))) == []
    assert messages(Content("model", (thought, Part(text="yes")))) == [
        {"role": "assistant", "content": "yes"}
    ]


def test_settings_of_the_model_go_where_ollama_has_them_and_those_of_the_request_beside() -> None:
    given = {"temperature": 0, "num_ctx": 8192, "think": "low", "options": {"top_k": 3}}

    sent = body(given, generate_config={"temperature": 1, "keep_alive": "5m"}, streaming=True)

    assert sent["options"] == {"temperature": 1, "num_ctx": 8192, "top_k": 3}
    assert (sent["think"], sent["keep_alive"], sent["stream"]) == ("low", "5m", True)
    assert "options" not in body()


def test_a_request_says_whether_it_is_streamed_because_ollama_streams_by_itself() -> None:
    assert body()["stream"] is False


def test_a_schema_is_the_format_and_tools_are_functions() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = ToolDeclaration("add", "Adds.", schema)

    sent = body(output_schema=schema, tools=(tool,))

    assert sent["format"] == schema
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}}
    ]


@pytest.mark.parametrize(
    ("config", "schema"), [({"messages": []}, None), ({"stream": True}, None), ({"format": "json"}, {})]
)
def test_the_configuration_may_not_name_what_the_runtime_fills(config: dict[str, Any], schema: Any) -> None:
    with pytest.raises(ModelError, match="generate_config may not hold"):
        body(generate_config=config, output_schema=schema)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "user", "content": ["hi"]}, "not a text"),
        ({"role": "user", "content": "", "images": [7]}, "images"),
        ({"role": "tool", "content": "x", "tool_call_id": "c9"}, "no call that waits"),
        (
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            "JSON object",
        ),
    ],
    ids=["parts", "images", "a stray response", "arguments as text"],
)
def test_the_check_of_a_history_finds_what_ollama_would_not_understand(
    message: dict[str, Any], problem: str
) -> None:
    assert any(problem in found for found in ollama_problems([{"role": "user", "content": "hi"}, message]))
