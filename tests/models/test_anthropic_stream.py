"""What of a streamed answer is shown while it comes, and that no cut changes it."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from anthropic_events import START, arguments, begun, delta, event, signature, stop, text, thinking
from intermission.content import Part
from intermission.models.anthropic_answer import AnthropicAnswer
from intermission.models.base import ModelResponse
from intermission.models.failures import Failures
from intermission.models.sse import event_data


def fed(*events: str, failures: Failures | None = None) -> tuple[list[tuple[Part, ...]], AnthropicAnswer]:
    """Return what is shown at each event, and the answer."""
    answer = AnthropicAnswer(failures or Failures())
    answer.add(START)
    return [answer.add(each).parts for each in events], answer


def shown(*events: str) -> list[tuple[Part, ...]]:
    return fed(*events)[0]


def streamed(*events: str) -> ModelResponse:
    return fed(*events)[1].response()


# Whether something is said


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (text(0, "a"), True),
        (text(0, ""), False),
        (delta(0, "citations_delta", citation={"url": "x"}), True),
        (begun(1, "text", text=""), False),
        (begun(1, "text", text="a"), True),
        (begun(1, "thinking", thinking=""), True),
        (begun(1, "redacted_thinking", data="x"), True),
        (begun(1, "tool_use", id="t", name="now", input={}), True),
        (stop(0), False),
        (event("ping"), False),
        (event("weather"), False),
        (event("message_delta", delta={"stop_reason": "end_turn"}), False),
    ],
)
def test_an_answer_goes_on_with_what_says_something(said: str, says: bool) -> None:
    _, answer = fed(begun(0, "text", text=""))

    assert answer.add(said).says_something is says


def test_an_answer_is_over_and_complete_with_the_end_of_its_message_and_not_before() -> None:
    answer = AnthropicAnswer(Failures())
    assert not answer.has_begun
    answer.add(START)
    assert answer.has_begun
    answer.add(event("message_delta", delta={"stop_reason": "end_turn"}))
    assert not answer.is_over
    assert not answer.is_complete
    answer.add(event("message_stop"))
    assert answer.is_over
    assert answer.is_complete


# Cut anywhere


@pytest.mark.parametrize(
    ("pieces", "seen"),
    [
        (["a\ud83d", "\ude00b"], ["a", "😀b", ""]),
        (["a\ud83d", "", "\ude00"], ["a", "", "😀", ""]),
        (["a\ud83d", "b"], ["a", "\ufffdb", ""]),
        (["a\ud83d"], ["a", "\ufffd"]),
    ],
)
def test_a_character_that_is_split_between_pieces_comes_out_whole(pieces: list[str], seen: list[str]) -> None:
    _, answer = fed(begun(0, "text", text=""))
    parts = [*(answer.add(text(0, piece)).parts for piece in pieces), answer.add(stop(0)).parts]

    assert ["".join(part.text or "" for part in each) for each in parts] == seen
    assert answer.response().content.text == "".join(seen)


def test_half_a_character_is_shown_before_the_next_block() -> None:
    events = [begun(0, "text", text="a\ud83d"), begun(1, "text", text="b")]

    assert shown(*events) == [(Part(text="a"),), (Part(text="\ufffd"), Part(text="b"))]
    assert streamed(*events).content.text == "a\ufffdb"


BODY = "".join(
    f"event: x\r\ndata: {each}\r\n\r\n: ping\n\n"
    for each in (
        START,
        begun(0, "thinking", thinking=""),
        thinking(0, "Hm — 😀\u2028"),
        signature(0, "EqQB"),
        stop(0),
        begun(1, "text", text=""),
        text(1, "größer 😀"),
        event("ping"),
        stop(1),
        begun(2, "tool_use", id="t", name="add", input={}),
        arguments(2, '{"a": "ü", "b": [1, '),
        arguments(2, "2]}"),
        stop(2),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
        event("message_stop"),
    )
).encode()


def read(pieces: list[bytes]) -> tuple[list[Part], ModelResponse]:
    answer = AnthropicAnswer(Failures())
    parts = [part for source in event_data(iter(pieces)) for part in answer.add(source).parts]
    assert answer.is_complete
    return parts, answer.response()


@settings(max_examples=scale.rounds(30, 1000))
@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_however_the_bytes_of_a_stream_are_cut_its_answer_is_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(BODY)]

    assert read([BODY[a:b] for a, b in itertools.pairwise(places)]) == read([BODY])


JSON = st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers(0, 9), max_size=3)
BLOCKS = st.lists(
    st.tuples(st.just("text"), st.text(max_size=8)) | st.tuples(st.just("call"), JSON), max_size=5
)


@settings(max_examples=scale.rounds(30, 1000))
@given(BLOCKS, st.data())
def test_however_blocks_are_cut_the_partials_make_up_the_text_and_calls_keep_their_ids(
    blocks: list[tuple[str, Any]], data: st.DataObject
) -> None:
    _, answer = fed()
    parts: list[Part] = []
    for index, (kind, said) in enumerate(blocks):
        rest = said if kind == "text" else json.dumps(said)
        one = begun(index, "text") if kind == "text" else begun(index, "tool_use", name="look", input={})
        parts += answer.add(one).parts
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            piece, rest = rest[:size], rest[size:]
            parts += answer.add(text(index, piece) if kind == "text" else arguments(index, piece)).parts
        parts += answer.add(stop(index)).parts
    content = answer.response().content

    assert "".join(part.text or "" for part in parts) == content.text
    assert content.text == "".join(said for kind, said in blocks if kind == "text")
    assert [dict(call.args) for call in content.function_calls] == [
        said for kind, said in blocks if kind == "call"
    ]
    last = {call.id: call for part in parts if (call := part.function_call) is not None}
    assert list(last.values()) == list(content.function_calls)
