import json
import re
from dataclasses import replace
from typing import Any

import pytest

from intermission.content import Content, FunctionCall, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models.base import ModelResponse
from intermission.models.chat_answer import ChatAnswer
from intermission.models.failures import Failures


def chunk(delta: dict[str, Any], **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta}], **more})


def answer(*chunks: str) -> ModelResponse:
    assembled = ChatAnswer(Failures(), "delta")
    for text in chunks:
        assembled.add(text)
    return assembled.response()


def calls(*deltas: dict[str, Any]) -> tuple[FunctionCall, ...]:
    """Return the calls of an answer, without the ids that say where they stand in it."""
    found = answer(*(chunk({"tool_calls": [delta]}) for delta in deltas)).content.function_calls
    assert [call.id for call in found] == [str(position) for position in range(len(found))]
    return tuple(replace(call, id="") for call in found)


def part(arguments: Any = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"function": {key: value for key, value in function.items() if value is not None}, **more}


ADD = FunctionCall("", "add", {"a": 1})
NOW = FunctionCall("", "now", {})


def test_arguments_are_joined_by_index() -> None:
    assert calls(
        part("", "add", index=0, id="x"),
        part("{}", "now", index=1, id="y"),
        part('{"a"', index=0),
        part(": 1}", index=0),
    ) == (ADD, NOW)


def test_an_id_on_every_delta_makes_no_new_call() -> None:
    assert calls(part('{"a"', "add", index=0, id="x"), part(": 1}", index=0, id="other")) == (ADD,)


def test_a_name_on_every_delta_makes_no_new_call() -> None:
    assert calls(part('{"a"', "add", index=0, id="x"), part(": 1}", "add", index=0, id="x")) == (ADD,)


def test_whole_calls_without_an_index_are_one_call_each() -> None:
    assert calls(part('{"a": 1}', "add"), part("", "now"), part('{"a": 1}', "add")) == (ADD, NOW, ADD)


def test_pieces_without_an_index_go_on_with_the_last_call() -> None:
    assert calls(part('{"a"', "add", id="x"), part(": 1}"), part(None, "now", id="y")) == (ADD, NOW)


def test_pieces_without_an_index_go_on_with_the_call_of_their_id() -> None:
    assert calls(part('{"a"', "add", id="x"), part("{}", "now", id="y"), part(": 1}", "add", id="x")) == (
        ADD,
        NOW,
    )


def test_whole_calls_that_share_an_index_are_one_call_each() -> None:
    assert calls(part('{"a": 1}', "add", index=0, id="x"), part('{"a": 1}', "add", index=0, id="y")) == (
        ADD,
        ADD,
    )
    assert calls(part('{"a": 1}', "add", index=0), part("{}", "now", index=0)) == (ADD, NOW)


def test_several_calls_may_come_in_one_delta() -> None:
    both = chunk({"tool_calls": [part('{"a": 1}', "add", index=0), part("{}", "now", index=1)]})
    assert answer(both).content.function_calls == (replace(ADD, id="0"), replace(NOW, id="1"))


def test_arguments_may_come_as_an_object() -> None:
    assert calls(part({"a": 1}, "add"), part({}, "now")) == (ADD, NOW)


@pytest.mark.parametrize("arguments", ["", " ", "{}", None])
def test_no_arguments_are_empty_arguments(arguments: str | None) -> None:
    assert calls(part(arguments, "now")) == (NOW,)


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '"{}"', "nonsense"])
def test_arguments_that_are_no_json_object_are_an_error_that_shows_them(arguments: str) -> None:
    with pytest.raises(ModelError) as caught:
        calls(part(arguments, "add"))

    assert caught.value.kind is ModelErrorKind.SERVICE
    assert "'add'" in str(caught.value)
    assert arguments.strip() in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": NaN}',
        '{"a": [-Infinity]}',
        '{"a": 1e999}',
        f'{{"a": {2**64}}}',
        f'{{"a": {"1" * 5000}}}',
        f'{{"a": {"[" * 60}{"]" * 60}}}',
        f'{{"a": {"[" * 200_000}',
    ],
    ids=["nan", "infinity", "1e999", "65 bits", "5000 digits", "60 levels", "200000 levels"],
)
def test_arguments_that_no_log_can_store_are_an_error_that_shows_them(arguments: str) -> None:
    with pytest.raises(ModelError) as caught:
        calls(part(arguments, "add"))

    assert caught.value.kind is ModelErrorKind.SERVICE
    assert "'add'" in str(caught.value)
    assert '{"a": ' in str(caught.value)
    assert len(str(caught.value)) < 600


def test_arguments_that_come_as_an_object_are_checked_too() -> None:
    with pytest.raises(ModelError, match="not finite"):
        calls(part({"a": float("nan")}, "add"))


def test_arguments_may_hold_every_integer_of_64_bits() -> None:
    assert calls(part('{"a": [9223372036854775808, -9223372036854775808]}', "add")) == (
        FunctionCall("", "add", {"a": [2**63, -(2**63)]}),
    )


def test_a_call_without_a_name_is_an_error() -> None:
    with pytest.raises(ModelError, match="no name"):
        calls(part("{}", index=0))


def test_texts_are_joined_and_other_choices_left_out() -> None:
    other = json.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    said = answer(
        chunk({"role": "assistant", "content": None}), chunk({"content": "a"}), other, chunk({"content": "b"})
    )

    assert said.content == Content.model("ab")


def test_a_refusal_is_what_the_model_says() -> None:
    assert answer(chunk({"content": None, "refusal": "I will not."})).content.text == "I will not."


def test_an_answer_of_nothing_is_empty() -> None:
    assert answer(chunk({})) == ModelResponse(content=Content("model", ()))


def test_an_answer_without_a_choice_is_none() -> None:
    with pytest.raises(ModelError, match="no choice"):
        answer(json.dumps({"choices": []}))


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9}, Usage(3, 4, 9)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(3, 4, 7)),
        ({"prompt_tokens": 3, "completion_tokens": "4", "total_tokens": 9}, Usage(3, 0, 9, complete=False)),
        ({"prompt_tokens": 2**70, "completion_tokens": 4}, Usage(0, 4, 4, complete=False)),
        ({"completion_tokens": 4}, Usage(0, 4, 4, complete=False)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": -1}, Usage(3, 4, 7)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": 1.5, "total_tokens": [7]}, None),
        ({}, None),
        ("many", None),
        (None, None),
    ],
)
def test_usage_is_what_the_service_reports(reported: object, usage: Usage | None) -> None:
    last = json.dumps({"choices": [], "usage": None})
    assert answer(chunk({}), json.dumps({"choices": [], "usage": reported}), last).usage == usage


@pytest.mark.parametrize(
    "source",
    [
        "nonsense",
        "[]",
        '{"choices": {}}',
        '{"choices": [7]}',
        '{"choices": [{"delta": 7}]}',
        '{"choices": [{"delta": {"content": 7}}]}',
        '{"choices": [{"delta": {"tool_calls": [{}]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": [], "function": {}}]}}]}',
    ],
)
def test_a_malformed_chunk_is_an_error_that_shows_it(source: str) -> None:
    with pytest.raises(ModelError) as caught:
        answer(source)

    assert caught.value.kind is ModelErrorKind.SERVICE
    assert source in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        '{"error": {"message": "overloaded", "code": 503}}',
        '{"error": "overloaded"}',
        '{"object": "error", "message": "overloaded", "code": 503}',
    ],
)
def test_an_error_in_place_of_a_chunk_is_an_error(source: str) -> None:
    with pytest.raises(ModelError, match="overloaded") as caught:
        answer(chunk({"content": "so far"}), source)

    assert caught.value.kind is ModelErrorKind.SERVICE


def split_in_chunks(*texts: str) -> tuple[list[str], str]:
    assembled = ChatAnswer(Failures(), "delta")
    shown = [*(assembled.add(chunk({"content": text})).parts for text in texts), assembled.end()]
    return ["".join(part.text or "" for part in parts) for parts in shown], assembled.response().content.text


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b", ""]),
        (["a\ud83d", "", "\ude00"], ["a", "", "😀", ""]),
        (["a\ud83d", "b"], ["a", "\ufffdb", ""]),
        (["\ude00"], ["\ufffd", ""]),
        (["a\ud83d"], ["a", "\ufffd"]),
    ],
)
def test_a_character_that_is_split_between_chunks_comes_out_whole(texts: list[str], shown: list[str]) -> None:
    pieces, final = split_in_chunks(*texts)

    assert pieces == shown
    assert final == "".join(shown)


def test_half_a_character_at_the_end_of_a_whole_answer_is_replaced() -> None:
    assembled = ChatAnswer(Failures(), "message")
    assembled.add(json.dumps({"choices": [{"message": {"content": "a\ud83d"}}]}))

    assert assembled.response().content.text == "a\ufffd"


@pytest.mark.parametrize(
    "pieces",
    [
        ('{"a": "\ud83d', '\ude00"}'),
        ('{"a": "\\ud83d', '\\ude00"}'),
        ('{"a": "\ud83d', '\\ude00"}'),
    ],
    ids=["split", "escaped twice", "mixed"],
)
def test_a_character_that_is_split_between_pieces_of_arguments_comes_out_whole(
    pieces: tuple[str, str],
) -> None:
    first, second = pieces

    assert calls(part(first, "add", index=0), part(second, index=0)) == (
        FunctionCall("", "add", {"a": "😀"}),
    )


def test_half_a_character_in_arguments_and_names_is_replaced() -> None:
    assert calls(part('{"\\ud83d": ["\ude00"]}', "add\ud83d")) == (
        FunctionCall("", "add\ufffd", {"\ufffd": ["\ufffd"]}),
    )


def test_a_whole_call_that_is_said_once_more_is_one_call() -> None:
    whole = part('{"a": 1}', "add", index=0, id="x")
    assert calls(part('{"a"', "add", index=0, id="x"), part(": 1}", index=0), whole) == (ADD,)
    assert calls(whole, part('{"a": 1}', "add", index=0)) == (ADD,)


def test_arguments_that_are_null_are_none() -> None:
    assert calls(part("null", "now", index=0)) == (NOW,)


def test_content_in_parts_is_text_and_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    content = [thinking, {"type": "text", "text": "Good "}, {"type": "text", "text": "morning."}]

    assert answer(chunk({"content": content})).content == Content(
        "model", (Part(text="hm", thought=True), Part(text="Good morning."))
    )
    with pytest.raises(ModelError, match="no chat completion"):
        answer(chunk({"content": ["hm"]}))


def test_usage_may_stand_in_the_choice() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    choice = {"index": 0, "delta": {"content": "a"}, "usage": usage}
    assert answer(json.dumps({"choices": [choice], "usage": None})).usage == Usage(1, 2, 3)


@pytest.mark.parametrize("nothing", [{}, "", False, None])
def test_an_error_that_is_empty_is_none(nothing: object) -> None:
    assert answer(chunk({"content": "a"}, error=nothing)).content == Content.model("a")


def test_an_answer_without_a_choice_is_shown_in_the_error() -> None:
    with pytest.raises(ModelError, match=re.escape('holds no choice: {"detail": "moved"}')):
        answer('{"detail": "moved"}')
