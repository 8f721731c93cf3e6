import base64
from typing import Any

import pytest

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.gemini_request import gemini_request
from intermission.testing.gemini_history import problems

OLD, NEW = "gemini-2.5-flash", "gemini-3-pro-preview"
USER = Content.user("hello")
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()


def request(*contents: Content, model: str = OLD, **fields: Any) -> dict[str, Any]:
    return gemini_request(model, ModelRequest(contents=contents or (USER,), **fields), {})


def contents(*said: Content, model: str = OLD) -> list[dict[str, Any]]:
    sent = request(*said, model=model)
    assert problems(sent) == []
    found: list[dict[str, Any]] = sent["contents"]
    return found


def called(*calls: FunctionCall, signature: bytes | None = None) -> Content:
    first, *others = calls
    signed = Part(function_call=first, thought_signature=signature)
    return Content("model", (signed, *(Part(function_call=call) for call in others)))


def answered(*ids: str, name: str = "look") -> Content:
    responses = [FunctionResponse(call_id, name, {"of": call_id}) for call_id in ids]
    return Content("user", tuple(Part(function_response=response) for response in responses))


def look(call_id: str, **args: Any) -> FunctionCall:
    return FunctionCall(call_id, "look", args)


def test_what_is_said_is_sent_by_turns_and_the_instruction_beside_it() -> None:
    assert request(USER, Content.model("Hello."), Content.user("And?"), instruction="Be brief.") == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hello"}]},
            {"role": "model", "parts": [{"text": "Hello."}]},
            {"role": "user", "parts": [{"text": "And?"}]},
        ],
    }


def test_messages_of_one_role_are_joined_also_over_one_that_says_nothing() -> None:
    silent = Content("model", (Part(text="hm", thought=True), Part(text=" \n"), Part(text="")))

    assert contents(USER, silent, Content.user("still there?")) == [
        {"role": "user", "parts": [{"text": "hello"}, {"text": "still there?"}]}
    ]


def test_responses_are_in_one_content_as_many_as_the_calls_and_in_their_order() -> None:
    both = called(look("a", at=1), look("b"))
    beside = Content("user", (Part(text="quick!"), *answered("a", "b").parts))

    assert contents(USER, both, beside)[1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "look", "args": {"at": 1}}},
                {"functionCall": {"name": "look", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"of": "a"}}},
                {"functionResponse": {"name": "look", "response": {"of": "b"}}},
                {"text": "quick!"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("model", "has_ids"),
    [
        ("gemini-2.5-flash", False),
        ("gemini-1.5-pro-002", False),
        ("gemma-3-27b-it", False),
        ("tunedModels/mine-1", False),
        ("gemini-3-pro-preview", True),
        ("gemini-3.5-flash-lite", True),
        ("gemini-10-pro", True),
        ("models/gemini-3.6-flash", True),
        ("gemini-flash-latest", True),
    ],
)
def test_ids_are_sent_to_the_models_that_know_them_the_same_in_call_and_response(
    model: str, has_ids: bool
) -> None:
    _, turn, answer = contents(USER, called(look("a"), look("b")), answered("a", "b"), model=model)

    ids = ["a", "b"] if has_ids else [None, None]
    assert [part["functionCall"].get("id") for part in turn["parts"]] == ids
    assert [part["functionResponse"].get("id") for part in answer["parts"]] == ids


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_signature_goes_back_with_exactly_the_part_that_it_came_with(model: str) -> None:
    said = Content(
        "model",
        (
            Part(text="hm", thought=True),
            Part(text="hm!", thought=True, thought_signature=b"1"),
            Part(text="See: "),
            Part(text="", thought_signature=b"\x00\xff2"),
            Part(inline_data=Blob("image/png", b"x"), thought_signature=b"3"),
            Part(function_call=look("a"), thought_signature=b"4"),
            Part(function_call=look("b")),
        ),
    )
    turn = contents(USER, said, answered("a", "b"), model=model)[1]

    calls = [part.pop("functionCall") for part in turn["parts"] if "functionCall" in part]
    assert [call["name"] for call in calls] == ["look", "look"]
    assert turn["parts"] == [
        {"text": "hm!", "thought": True, "thoughtSignature": "MQ=="},
        {"text": "See: "},
        {"text": "", "thoughtSignature": "AP8y"},
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}, "thoughtSignature": "Mw=="},
        {"thoughtSignature": "NA=="},
        {},
    ]


def test_what_another_provider_has_signed_is_not_sent() -> None:
    theirs = Content(
        "model",
        (
            Part(text="hm", thought=True, thought_signature=b"anthropic:x"),
            Part(text="Hello.", thought_signature=b"anthropic:y"),
        ),
    )

    assert contents(USER, theirs, USER)[1] == {"role": "model", "parts": [{"text": "Hello."}]}


def test_each_step_since_the_user_has_spoken_has_a_signature_of_its_first_call_if_the_model_wants_it() -> (
    None
):
    said = (
        USER,
        called(look("a")),
        answered("a"),
        Content.user("And now?"),  # goes into one content with the response before it
        called(look("b"), look("c")),
        answered("b", "c"),
        called(look("d"), look("e"), signature=b"real"),
        answered("d", "e"),
        called(look("f"), signature=b"anthropic:x"),
        answered("f"),
    )

    def signatures(model: str, *said: Content) -> list[list[str | None]]:
        turns = (turn["parts"] for turn in contents(*said, model=model) if turn["role"] == "model")
        return [[part.get("thoughtSignature") for part in parts] for parts in turns]

    real = base64.b64encode(b"real").decode()
    # A service may or may not take words beside a response for a new turn; both find what they look for.
    assert signatures(NEW, *said) == [[UNSIGNED], [UNSIGNED, None], [real, None], [UNSIGNED]]
    assert signatures(OLD, *said) == [[None], [None, None], [real, None], [None]]
    over = (*said, Content.model("Done."), USER)
    assert signatures(NEW, *over) == [[None], [None, None], [real, None], [None], [None]]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("functions.größe now", "functions_gr__e_now"),
        ("x" * 70, "x" * 64),
        ("a-B_1.c", "a-B_1.c"),
        ("7th", "_7th"),
        ("9" * 70, "_" + "9" * 63),
        ("", "_"),
    ],
)
def test_a_name_that_a_model_made_up_cannot_keep_a_session_from_going_on(name: str, sent: str) -> None:
    _, call, answer = contents(USER, called(FunctionCall("a", name, {})), answered("a", name=name))

    assert call["parts"][0]["functionCall"]["name"] == sent
    assert answer["parts"][0]["functionResponse"]["name"] == sent


@pytest.mark.parametrize("mime_type", ["image/png", "audio/wav", "application/pdf", "video/mp4"])
def test_data_of_any_type_are_sent_inline_those_of_the_model_too(mime_type: str) -> None:
    shown = Part(inline_data=Blob(mime_type, b"\x00\xff"))
    piece = {"inlineData": {"mimeType": mime_type, "data": "AP8="}}

    assert contents(Content("user", (shown, Part(text="?"))), Content("model", (shown,)), USER)[:2] == [
        {"role": "user", "parts": [piece, {"text": "?"}]},
        {"role": "model", "parts": [piece]},
    ]


def test_tools_are_declared_by_their_json_schema() -> None:
    schema = {"type": "object", "properties": {"at": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    tools = (ToolDeclaration("look", "Look.", schema), ToolDeclaration("now", "", {"type": "object"}))

    assert request(tools=tools)["tools"] == [
        {
            "functionDeclarations": [
                {"name": "look", "description": "Look.", "parametersJsonSchema": schema},
                {"name": "now", "description": "", "parametersJsonSchema": {"type": "object"}},
            ]
        }
    ]


def test_a_schema_of_the_answer_is_a_part_of_the_generation_config() -> None:
    schema = {"type": "object", "title": "Answer"}

    assert request(output_schema=schema, generate_config={"temperature": 0})["generationConfig"] == {
        "temperature": 0,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


def test_fields_of_either_spelling_stand_where_the_service_looks_for_them() -> None:
    options = {
        "temperature": 1,
        "max_output_tokens": 9,
        "safety_settings": [{"category": "x"}],
        "generationConfig": {"top_k": 3, "seed": 1},
    }
    config = {"maxOutputTokens": 7, "thinkingConfig": {"thinkingBudget": 0}, "toolConfig": {}, "topK": 2}
    sent = gemini_request(OLD, ModelRequest(contents=(USER,), generate_config=config), options)

    del sent["contents"]
    assert sent == {
        "generationConfig": {
            "temperature": 1,
            "maxOutputTokens": 7,
            "topK": 2,
            "seed": 1,
            "thinkingConfig": {"thinkingBudget": 0},
        },
        "safetySettings": [{"category": "x"}],
        "toolConfig": {},
    }


@pytest.mark.parametrize("name", ["contents", "tools", "systemInstruction", "system_instruction", "model"])
def test_the_configuration_may_not_name_what_the_runtime_fills(name: str) -> None:
    with pytest.raises(ModelError, match=f"generate_config may not hold {name}") as caught:
        request(generate_config={name: []})

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


@pytest.mark.parametrize("name", ["responseMimeType", "response_json_schema", "responseSchema"])
def test_the_form_of_the_answer_may_not_be_given_twice(name: str) -> None:
    assert request(generate_config={name: "x"})["generationConfig"]
    with pytest.raises(ModelError, match=name):
        request(generate_config={name: "x"}, output_schema={"type": "object"})


def test_values_without_a_form_in_json_are_sent_as_text() -> None:
    call = called(look("a", data=b"\x00", number=float("nan")))
    sent = contents(USER, call, answered("a"))[1]["parts"][0]["functionCall"]

    assert sent["args"] == {"data": "AA==", "number": "NaN"}


def test_a_schema_of_the_answer_stands_in_the_place_of_one_in_the_options_in_either_form() -> None:
    asked = ModelRequest(contents=(USER,), output_schema={"type": "object"})
    sent = gemini_request(OLD, asked, {"response_schema": {"type": "STRING"}})

    assert sent["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }


def test_vertex_ai_is_sent_no_ids_but_signatures() -> None:
    asked = ModelRequest(contents=(USER, called(look("c1")), answered("c1")))
    _, call, response = gemini_request(NEW, asked, {}, on_vertex=True)["contents"]

    assert call["parts"] == [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": UNSIGNED}]
    assert "id" not in response["parts"][0]["functionResponse"]
