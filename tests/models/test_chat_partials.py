"""What of an answer is shown while it comes: thoughts, texts, and calls as far as they are known."""

import json
from typing import Any

import pydantic_core
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission.content import FunctionCall, Part
from intermission.errors import ModelError
from intermission.models.base import ModelResponse
from intermission.models.chat_answer import ChatAnswer
from intermission.models.failures import Failures

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | FLOATS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def chunk(delta: dict[str, Any]) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta}]})


def part(arguments: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments} | ({} if name is None else {"name": name}), **more}


def answer(*chunks: str) -> ModelResponse:
    assembled = ChatAnswer(Failures(), "delta")
    for text in chunks:
        assembled.add(text)
    return assembled.response()


def shown(*chunks: str) -> list[tuple[Part, ...]]:
    assembled = ChatAnswer(Failures(), "delta")
    return [assembled.add(text).parts for text in chunks]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_what_the_model_thinks_is_a_thought_and_no_text(field: str) -> None:
    chunks = [chunk({field: "Let me "}), chunk({field: "see."}), chunk({"content": "Yes."})]
    said = answer(*chunks)

    assert shown(*chunks) == [
        (Part(text="Let me ", thought=True),),
        (Part(text="see.", thought=True),),
        (Part(text="Yes."),),
    ]
    assert said.content.parts == (Part(text="Let me see.", thought=True), Part(text="Yes."))
    assert said.content.text == "Yes."


def test_a_thought_that_comes_under_two_names_is_one_thought() -> None:
    both = chunk({"reasoning_content": "Hm.", "reasoning": "Hm."})

    assert answer(both).content.parts == (Part(text="Hm.", thought=True),)


@pytest.mark.parametrize("delta", [{"reasoning": 7}, {"reasoning_content": ["a"]}, {"refusal": {}}])
def test_a_thought_or_a_refusal_that_is_no_text_is_malformed(delta: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="no chat completion"):
        answer(chunk(delta))


def test_a_call_is_shown_as_far_as_its_arguments_can_be_read() -> None:
    pieces = ["", '{"wh', 'ere": "un', "der the ", 'bed", "de', 'ep": tr', "ue}"]
    first, *more = (chunk({"tool_calls": [part(piece, index=0)]}) for piece in pieces)
    named = chunk({"tool_calls": [part("", "look", index=0, id="x")]})
    calls_shown = [[part.function_call for part in parts] for parts in shown(named, first, *more)]

    assert calls_shown == [
        [FunctionCall("0", "look", {})],
        [],
        [],
        [FunctionCall("0", "look", {"where": "un"})],
        [FunctionCall("0", "look", {"where": "under the "})],
        [FunctionCall("0", "look", {"where": "under the bed"})],
        [],
        [FunctionCall("0", "look", {"where": "under the bed", "deep": True})],
    ]


def test_a_call_is_shown_when_its_name_is_known() -> None:
    early = chunk({"tool_calls": [part('{"a": 1}', index=0)]})
    named = chunk({"tool_calls": [part("", "add", index=0)]})

    assert shown(early, named) == [(), (Part(function_call=FunctionCall("0", "add", {"a": 1})),)]


def test_calls_that_come_at_the_same_time_are_shown_under_ids_of_their_own() -> None:
    begun = chunk({"tool_calls": [part("", "add", index=0), part("", "now", index=1)]})
    more = chunk({"tool_calls": [part("{}", index=1), part('{"a": 1}', index=0)]})

    assert shown(begun, more) == [
        (
            Part(function_call=FunctionCall("0", "add", {})),
            Part(function_call=FunctionCall("1", "now", {})),
        ),
        (Part(function_call=FunctionCall("0", "add", {"a": 1})),),
    ]


@pytest.mark.parametrize("arguments", ['{"a": NaN', '{"a": 1e999', "[1", '"x', "nonsense"])
def test_what_cannot_be_read_of_arguments_is_not_shown(arguments: str) -> None:
    assert shown(chunk({"tool_calls": [part(arguments, "add", index=0)]})) == [
        (Part(function_call=FunctionCall("0", "add", {})),)
    ]


def test_long_arguments_are_not_read_again_with_each_of_their_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    parse = pydantic_core.from_json

    def from_json(text: str, **options: Any) -> Any:
        read.append(len(text))
        return parse(text, **options)

    monkeypatch.setattr(pydantic_core, "from_json", from_json)
    length, piece = 400_000, "x" * 100
    begun = chunk({"tool_calls": [part('{"a": "', "add", index=0)]})
    more = chunk({"tool_calls": [part(piece, index=0)]})
    pieces = shown(begun, *[more] * (length // len(piece)))

    assert 10 < len([parts for parts in pieces if parts]) < 100
    assert sum(read) < 4 * length


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ("stop", "stop", None),
        ("tool_calls", "tool_calls", None),
        ("function_call", "tool_calls", None),
        ("length", "length", "length"),
        ("max_tokens", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("insufficient_system_resource", "insufficient_system_resource", None),
        (None, None, None),
        (7, None, None),
    ],
)
def test_the_reason_for_the_end_is_kept_and_says_whether_the_answer_is_short_of_one(
    said: object, reason: str | None, code: str | None
) -> None:
    last = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": said}]})
    response = answer(chunk({"content": "so far"}), last, json.dumps({"choices": []}))

    assert (response.finish_reason, response.error_code) == (reason, code)


def test_a_refusal_is_the_reason_for_the_end() -> None:
    said = json.dumps({"choices": [{"delta": {"refusal": "No."}, "finish_reason": "stop"}]})

    assert (answer(said).finish_reason, answer(said).error_code) == ("refusal", "refusal")


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]], list[str]]:
    """Draw a text, some calls' arguments, and chunks that bring them in pieces and in any mixture."""
    text = draw(st.text(max_size=20))
    arguments = draw(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=3))
    sources: list[tuple[int | None, str]]
    sources = [(None, text), *((index, json.dumps(args)) for index, args in enumerate(arguments))]
    chunks = [
        chunk({"tool_calls": [part("", "look", index=index, id="same") for index in range(len(arguments))]})
    ]
    while sources:
        index, rest = sources.pop(draw(st.integers(0, len(sources) - 1)))
        size = draw(st.integers(0, len(rest)))
        piece, rest = rest[:size], rest[size:]
        delta = {"content": piece} if index is None else {"tool_calls": [part(piece, index=index)]}
        chunks.append(chunk(delta))
        if rest:
            sources.append((index, rest))
    return text, arguments, chunks


@pytest.mark.scenario("G4")
@given(answers())
def test_however_an_answer_is_cut_its_partials_make_up_its_text_and_its_calls_keep_their_ids(
    drawn: tuple[str, list[dict[str, Any]], list[str]],
) -> None:
    text, arguments, chunks = drawn
    assembled = ChatAnswer(Failures(), "delta")
    parts = [part for source in chunks for part in assembled.add(source).parts]
    whole = assembled.response().content

    assert "".join(part.text or "" for part in parts) == whole.text == text
    assert [dict(call.args) for call in whole.function_calls] == arguments
    shown = {part.function_call.id for part in parts if part.function_call is not None}
    assert shown == {call.id for call in whole.function_calls}
    last = {part.function_call.id: part.function_call for part in parts if part.function_call is not None}
    assert all(last[call.id].args == call.args for call in whole.function_calls)
