import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.content import Blob, Content, FunctionCall, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models.base import ModelResponse
from intermission.models.failures import Failures
from intermission.models.gemini_answer import GeminiAnswer
from intermission.models.sse import event_data


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
    return json.dumps({"candidates": [candidate | ({"finishReason": finish} if finish else {})], **more})


def answer(*chunks: str) -> ModelResponse:
    return read(*chunks)[1]


def read(*chunks: str) -> tuple[list[Part], ModelResponse]:
    """Return what was shown of an answer, and the whole."""
    assembled = GeminiAnswer(Failures())
    shown = [part for text in chunks for part in assembled.add(text).parts]
    return shown + list(assembled.end()), assembled.response()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def call(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


SIGNED = base64.b64encode(b"\xfb\xff1").decode()  # with the letters that differ in addresses


def test_pieces_of_text_are_one_part_and_thoughts_another() -> None:
    shown, whole = read(
        chunk(text("let me ", thought=True)),
        chunk(text("think", thought=True), text("One ")),
        chunk(text("two")),
    )

    assert [part.text for part in shown] == ["let me ", "think", "One ", "two"]
    assert whole.content == Content("model", (Part(text="let me think", thought=True), Part(text="One two")))


def test_what_is_signed_stays_a_part_of_its_own_in_its_place() -> None:
    shown, whole = read(
        chunk(text("One ")),
        chunk(text("two", thoughtSignature=SIGNED), text(" three")),
        chunk(text("", thoughtSignature=SIGNED), finish="STOP"),
    )

    assert whole.content.parts == (
        Part(text="One "),
        Part(text="two", thought_signature=b"\xfb\xff1"),
        Part(text=" three"),
        Part(text="", thought_signature=b"\xfb\xff1"),
    )
    assert "".join(part.text or "" for part in shown) == whole.content.text == "One two three"


@pytest.mark.parametrize("signature", [SIGNED, SIGNED.replace("+", "-").replace("/", "_")])
def test_a_call_comes_whole_with_its_signature_and_its_position_as_its_id(signature: str) -> None:
    shown, whole = read(
        chunk(text("See.")),
        chunk(call(args={"at": 1}, id="theirs") | {"thoughtSignature": signature}),
        chunk(call("now", args=None), finish="STOP"),
    )

    first = Part(function_call=FunctionCall("0", "look", {"at": 1}), thought_signature=b"\xfb\xff1")
    second = Part(function_call=FunctionCall("1", "now", {}))
    assert whole.content.parts == (Part(text="See."), first, second)
    assert shown == [Part(text="See."), first, second]
    assert whole.finish_reason == "tool_calls"


def test_data_inline_are_a_part() -> None:
    shown, whole = read(
        chunk({"inlineData": {"mimeType": "image/png", "data": "AP8="}, "thought": True}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "MQ=="}),
    )

    assert list(whole.content.parts) == shown
    assert shown == [
        Part(inline_data=Blob("image/png", b"\x00\xff"), thought=True),
        Part(inline_data=Blob("image/png", b"\x00"), thought_signature=b"1"),
    ]


def test_what_the_service_runs_itself_is_passed_over_and_counts_as_going_on() -> None:
    assembled = GeminiAnswer(Failures())

    assert assembled.add(chunk({"executableCode": {"language": "PYTHON", "code": "1"}})) == ((), True)
    assert assembled.add(chunk(text(""))) == ((), False)
    assert assembled.add(chunk(text("1"))) == ((Part(text="1"),), True)
    assert assembled.response().content == Content.model("1")


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("OTHER", "OTHER"),
    ],
)
def test_the_reason_for_the_end_is_ours_where_there_is_one(reason: str, ours: str) -> None:
    assert answer(chunk(text("so "), finish=reason)).finish_reason == ours


@pytest.mark.parametrize(
    "reason",
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"],
)
def test_an_answer_that_the_service_threw_away_is_an_error_that_may_not_happen_again(reason: str) -> None:
    body = {"candidates": [{"finishReason": reason, "finishMessage": "print(look("}]}
    with pytest.raises(ModelError, match=rf"{reason}: print\(look\(") as caught:
        answer(json.dumps(body))

    assert caught.value.kind is ModelErrorKind.SERVICE
    assert caught.value.retryable


def test_a_prompt_that_is_held_back_is_an_answer_without_content() -> None:
    usage = {"promptTokenCount": 8, "totalTokenCount": 8}
    assembled = GeminiAnswer(Failures())
    assembled.add(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}))

    assert assembled.is_complete
    assert assembled.response() == ModelResponse(
        content=Content("model", ()), usage=Usage(8, 0, 8), finish_reason="content_filter"
    )
    assert assembled.response().error_code == "content_filter"


def test_the_end_is_known_by_its_reason_and_what_comes_behind_it_belongs_to_the_answer() -> None:
    assembled = GeminiAnswer(Failures())
    assembled.add(chunk(text("one ")))
    assert (assembled.has_begun, assembled.is_complete) == (True, False)
    assembled.add(chunk(text("two "), finish="STOP"))
    assert (assembled.is_complete, assembled.is_over) == (True, False)
    assembled.add(chunk(text("three"), finish="STOP"))  # the first models say STOP in every chunk
    assembled.add(json.dumps({"usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 4}}))

    assert assembled.response().content.text == "one two three"
    assert assembled.response().usage == Usage(1, 0, 4)


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (
            {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
            Usage(3, 2, 5, complete=True),
        ),
        (
            {
                "promptTokenCount": 3,
                "toolUsePromptTokenCount": 10,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 100,
                "totalTokenCount": 115,
            },
            Usage(13, 102, 115, complete=True),
        ),
        ({"promptTokenCount": 3, "candidatesTokenCount": 2}, Usage(3, 2, 5, complete=True)),
        ({"candidatesTokenCount": 2}, Usage(0, 2, 2, complete=False)),
        ({"promptTokenCount": "3", "candidatesTokenCount": -1, "totalTokenCount": 2**60}, None),
        ({"trafficType": "ON_DEMAND"}, None),
        ("many", None),
    ],
)
def test_usage_is_what_the_service_reports(reported: object, usage: Usage | None) -> None:
    assert answer(chunk(text("x"), usageMetadata=reported)).usage == usage


def test_usage_of_an_earlier_chunk_stays_if_a_later_one_has_none() -> None:
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}

    assert answer(chunk(text("x"), usageMetadata=counts), chunk(finish="STOP")).usage == Usage(3, 2, 5)


def test_further_candidates_are_no_part_of_the_answer() -> None:
    body = {"candidates": [{"index": 1, "content": {"parts": [text("no")]}}]}

    assert answer(chunk(text("yes")), json.dumps(body)).content == Content.model("yes")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "nonsense",
        "7",
        "[]",
        "null",
        '{"candidates": {}}',
        '{"candidates": [7]}',
        '{"candidates": [{"content": 7}]}',
        '{"candidates": [{"content": {"parts": "x"}}]}',
        '{"candidates": [{"content": {"parts": [7]}}]}',
        chunk({"text": 7}),
        chunk({"functionCall": "look"}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "%"}}),
        chunk({"inlineData": {"mimeType": 7, "data": ""}}),
        chunk(text("x", thoughtSignature="é")),
        chunk(text("x", thoughtSignature=7)),
        chunk(call("")),
        chunk(call(args=[1])),
    ],
)
def test_what_is_no_answer_is_a_service_error(source: str) -> None:
    with pytest.raises(ModelError) as caught:
        answer(source)

    assert caught.value.kind is ModelErrorKind.SERVICE


@pytest.mark.parametrize("source", ["{}", '{"candidates": []}', '{"promptFeedback": {}}'])
def test_an_answer_without_a_candidate_is_an_error_that_shows_it(source: str) -> None:
    with pytest.raises(ModelError, match="holds no candidate") as caught:
        answer(source)

    assert source in str(caught.value)


@pytest.mark.parametrize("arguments", ['{"a": NaN}', f'{{"a": {2**64}}}', f'{{"a": {"[" * 60}{"]" * 60}}}'])
def test_arguments_that_no_log_can_store_are_an_error_that_shows_them(arguments: str) -> None:
    source = chunk(call(args="ARGS")).replace('"ARGS"', arguments)
    with pytest.raises(ModelError, match="the arguments of tool call 'look' hold") as caught:
        answer(source)

    assert caught.value.kind is ModelErrorKind.SERVICE


def test_an_error_in_place_of_a_chunk_is_the_services_error() -> None:
    body = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    with pytest.raises(ModelError, match="slow down") as caught:
        answer(chunk(text("one ")), json.dumps(body))

    assert caught.value.kind is ModelErrorKind.RATE_LIMIT


def test_a_character_that_is_split_between_chunks_is_shown_whole() -> None:
    high, low = "\\ud83d", "\\ude00"
    shown, whole = read(*(chunk(text("half")).replace("half", half) for half in (high, low)))

    assert [part.text for part in shown] == ["😀"]
    assert whole.content == Content.model("😀")
    shown, whole = read(chunk(text("half")).replace("half", high), chunk(call()))
    assert [part.text for part in shown] == ["�", None]
    assert whole.content.text == "�"


PIECES = st.lists(
    st.one_of(
        st.builds(text, st.text(max_size=5), thought=st.booleans()),
        st.builds(text, st.text(max_size=3), thoughtSignature=st.just("MQ==")),
        st.just(call(args={"a": "é\u2028"})),
        st.just({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
    ),
    max_size=8,
)


@given(PIECES, st.data())
def test_an_answer_is_the_same_however_its_parts_and_its_bytes_are_split(
    pieces: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = answer(chunk(*pieces, finish="STOP"))
    events: list[str] = []
    rest = pieces
    while rest:
        taken = data.draw(st.integers(1, len(rest)))
        events.append(chunk(*rest[:taken]))
        rest = rest[taken:]
    events.append(chunk(finish="STOP"))
    body = "".join(f"data: {event}\r\n\r\n" for event in events).encode()
    size = data.draw(st.integers(1, max(1, len(body))))
    shown, streamed = read(*event_data(body[at : at + size] for at in range(0, len(body), size)))

    assert streamed == whole
    assert "".join(part.text or "" for part in shown if not part.thought) == whole.content.text
    assert [part for part in shown if part.function_call] == [
        part for part in whole.content.parts if part.function_call
    ]
