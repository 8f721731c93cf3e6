import json
import logging
from typing import Any

import pytest

from anthropic_events import START, arguments, begun, delta, event, signature, stop, text, thinking
from intermission.content import Content, FunctionCall, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models.anthropic_answer import AnthropicAnswer
from intermission.models.anthropic_request import BLOCK_MARK, THOUGHT_MARK
from intermission.models.base import ModelResponse
from intermission.models.failures import Failures


def fed(*events: str, failures: Failures | None = None) -> tuple[list[tuple[Part, ...]], AnthropicAnswer]:
    """Return what is shown at each event, and the answer."""
    answer = AnthropicAnswer(failures or Failures())
    answer.add(START)
    return [answer.add(each).parts for each in events], answer


def shown(*events: str) -> list[tuple[Part, ...]]:
    return fed(*events)[0]


def streamed(*events: str) -> ModelResponse:
    return fed(*events)[1].response()


def whole(*blocks: dict[str, Any], **fields: Any) -> ModelResponse:
    answer = AnthropicAnswer(Failures())
    answer.add(event("message", role="assistant", content=list(blocks), **fields))
    return answer.response()


def kept(**block: Any) -> Part:
    return Part(text="", thought=True, thought_signature=BLOCK_MARK + json.dumps(block).encode())


def test_texts_and_calls_are_shown_as_they_come_and_stand_in_the_order_of_their_blocks() -> None:
    events = [
        begun(0, "text", text=""),
        text(0, "Let me "),
        text(0, "see."),
        stop(0),
        begun(1, "tool_use", id="toolu_1", name="add", input={}),
        arguments(1, ""),
        arguments(1, '{"a": '),
        arguments(1, "1}"),
        stop(1),
        begun(2, "tool_use", id="toolu_2", name="now", input={}),
        stop(2),
        begun(3, "text", text=" And"),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
    ]
    add, now = FunctionCall("0", "add", {"a": 1}), FunctionCall("1", "now", {})

    assert [parts for parts in shown(*events) if parts] == [
        (Part(text="Let me "),),
        (Part(text="see."),),
        (Part(function_call=FunctionCall("0", "add", {})),),
        (Part(function_call=add),),
        (Part(function_call=now),),
        (Part(text=" And"),),
    ]
    said = streamed(*events)
    assert said.content.parts == (
        Part(text="Let me see."),
        Part(function_call=add),
        Part(function_call=now),
        Part(text=" And"),
    )
    assert said.finish_reason == "tool_calls"


def test_a_whole_answer_is_read_as_a_streamed_one() -> None:
    said = whole(
        {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Em=="},
        {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
        stop_reason="tool_use",
        usage={"input_tokens": 3, "output_tokens": 4},
    )

    assert said == ModelResponse(
        content=Content(
            "model",
            (
                Part(text="Hm.", thought=True, thought_signature=THOUGHT_MARK + b"EqQB"),
                kept(type="redacted_thinking", data="Em=="),
                Part(text="Yes."),
                Part(function_call=FunctionCall("0", "add", {"a": 1})),
                Part(function_call=FunctionCall("1", "now", {})),
            ),
        ),
        usage=Usage(3, 4, 7),
        finish_reason="tool_calls",
    )


# Thoughts, and what else goes back as it came


def test_a_thought_is_shown_as_it_comes_and_kept_with_its_signature() -> None:
    events = [
        begun(0, "thinking", thinking="", signature=""),
        thinking(0, "Let me "),
        thinking(0, "see."),
        signature(0, "EqQB+/=="),
        stop(0),
        begun(1, "text", text=""),
        text(1, "Yes."),
    ]

    assert [parts for parts in shown(*events) if parts] == [
        (Part(text="Let me ", thought=True),),
        (Part(text="see.", thought=True),),
        (Part(text="Yes."),),
    ]
    said = streamed(*events).content
    thought = Part(text="Let me see.", thought=True, thought_signature=THOUGHT_MARK + b"EqQB+/==")
    assert said.parts == (thought, Part(text="Yes."))
    assert said.text == "Yes."


def test_a_thought_that_is_not_shown_is_kept_and_one_that_is_not_signed_is_only_shown() -> None:
    hidden = streamed(begun(0, "thinking", thinking=""), signature(0, "EqQB"), stop(0))
    unsigned = streamed(begun(0, "thinking", thinking=""), thinking(0, "Hm."), signature(0, ""))

    assert hidden.content.parts == (Part(text="", thought=True, thought_signature=THOUGHT_MARK + b"EqQB"),)
    assert unsigned.content.parts == (Part(text="Hm.", thought=True),)
    assert streamed(begun(0, "thinking", thinking="")).content.parts == ()


def test_what_the_service_alone_reads_is_kept_where_it_stands_and_shows_nothing() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "x"}]}
    events = [
        begun(0, "redacted_thinking", data="Em=="),
        stop(0),
        begun(1, "server_tool_use", id="srv_1", name="web_search", input={}),
        arguments(1, '{"query": '),
        arguments(1, '"sea"}'),
        stop(1),
        event("content_block_start", index=2, content_block=result),
        begun(3, "text", text="So."),
    ]

    assert [part for parts in shown(*events) for part in parts] == [Part(text="So.")]
    assert streamed(*events).content.parts == (
        kept(type="redacted_thinking", data="Em=="),
        kept(type="server_tool_use", id="srv_1", name="web_search", input={"query": "sea"}),
        kept(**result),
        Part(text="So."),
    )


def test_events_deltas_and_blocks_that_nobody_knows_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    events = [
        event("ping"),
        begun(0, "hologram", light=1),
        delta(0, "hologram_delta", light=2),
        stop(0),
        event("weather", wind=7),
        begun(1, "text", text="", citations=[]),
        text(1, "So."),
        delta(1, "citations_delta", citation={"url": "x"}),
        stop(7),
    ]
    with caplog.at_level(logging.WARNING, "intermission"):
        assert streamed(*events).content == Content.model("So.")

    assert [record.message for record in caplog.records] == [
        "a block of type 'hologram' in the answer of a model is left out"
    ]


# The reason for the end, and tokens


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ("end_turn", "stop", None),
        ("stop_sequence", "stop", None),
        ("tool_use", "tool_calls", None),
        ("max_tokens", "length", "length"),
        ("model_context_window_exceeded", "length", "length"),
        ("refusal", "refusal", "refusal"),
        ("pause_turn", "pause_turn", None),
        (None, None, None),
        (7, None, None),
    ],
)
def test_the_reason_for_the_end_is_kept_and_says_whether_the_answer_is_short_of_one(
    said: object, reason: str | None, code: str | None
) -> None:
    response = streamed(begun(0, "text", text="so far"), event("message_delta", delta={"stop_reason": said}))

    assert (response.finish_reason, response.error_code) == (reason, code)
    assert whole({"type": "text", "text": "so far"}, stop_reason=said).finish_reason == reason


@pytest.mark.parametrize(
    ("first", "last", "usage"),
    [
        ({"input_tokens": 3, "output_tokens": 1}, {"output_tokens": 4}, Usage(3, 4, 7)),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100},
            {"output_tokens": 4},
            Usage(123, 4, 127),
        ),
        ({"input_tokens": 3}, {"input_tokens": 9, "output_tokens": 4}, Usage(9, 4, 13)),
        ({"input_tokens": 3}, {"input_tokens": 0, "output_tokens": 4}, Usage(3, 4, 7)),
        ({"input_tokens": 3, "output_tokens": 1}, {}, Usage(3, 0, 3, complete=False)),
        ({"input_tokens": "3"}, {"output_tokens": 4}, Usage(0, 4, 4, complete=False)),
        ({"input_tokens": 2**70}, {"output_tokens": True}, None),
        (None, "many", None),
    ],
)
def test_usage_counts_the_whole_prompt_cached_or_not(
    first: object, last: object, usage: Usage | None
) -> None:
    answer = AnthropicAnswer(Failures())
    answer.add(event("message_start", message={"usage": first}))
    answer.add(event("message_delta", delta={}, usage=last))

    assert answer.response().usage == usage


# What is no answer


@pytest.mark.parametrize(
    "source",
    [
        "nonsense",
        "[]",
        "7",
        event("message_start"),
        event("message_start", message=[]),
        event("content_block_start", index=0),
        begun([], "text", text=""),
        begun(0, "text", text=7),
        event("content_block_start", index=0, content_block={"type": 7}),
        text(0, "before its block"),
        event("content_block_delta", index=0),
        event("message_delta", usage={}),
        event("message", content={}),
        event("message", content=["text"]),
    ],
)
def test_a_malformed_event_is_an_error_that_shows_it(source: str) -> None:
    answer = AnthropicAnswer(Failures())
    with pytest.raises(ModelError, match="no message") as caught:
        answer.add(source)

    assert caught.value.kind is ModelErrorKind.SERVICE
    assert source in str(caught.value)


@pytest.mark.parametrize(
    "late",
    [
        [begun(0, "text", text="a"), begun(1, "text", text="b"), text(0, "c")],
        [begun(0, "thinking", thinking="a"), begun(1, "text", text="b"), thinking(0, "c")],
        [begun(0, "thinking", thinking="a"), signature(0, 7)],
        [begun(0, "tool_use", name="now"), arguments(0, {})],
        [begun(0, "server_tool_use", name="web_search"), arguments(0, "{"), stop(0)],
    ],
    ids=["text", "thought", "signature", "arguments", "kept"],
)
def test_pieces_that_do_not_fit_their_blocks_are_malformed(late: list[str]) -> None:
    with pytest.raises(ModelError, match="no message"):
        shown(*late)


def test_a_kept_block_that_could_not_be_sent_again_is_malformed() -> None:
    deep: Any = "x"
    for _ in range(60):
        deep = [deep]
    with pytest.raises(ModelError, match="no message"):
        streamed(
            event("content_block_start", index=0, content_block={"type": "redacted_thinking", "data": deep})
        )


def test_a_kept_block_that_ends_in_the_middle_is_malformed() -> None:
    _, answer = fed(begun(0, "server_tool_use", name="web_search"), arguments(0, "{"))

    with pytest.raises(ModelError, match="no message"):
        answer.end()


def test_an_answer_without_a_message_is_none_and_is_shown() -> None:
    answer = AnthropicAnswer(Failures())
    answer.add('{"detail": "moved"}')

    with pytest.raises(ModelError, match="holds no message") as caught:
        answer.response()
    assert '{"detail": "moved"}' in str(caught.value)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("overloaded_error", ModelErrorKind.SERVICE),
        ("api_error", ModelErrorKind.SERVICE),
        ("rate_limit_error", ModelErrorKind.RATE_LIMIT),
        ("timeout_error", ModelErrorKind.TIMEOUT),
        ("invalid_request_error", ModelErrorKind.VALIDATION),
        ("authentication_error", ModelErrorKind.AUTHENTICATION),
        ("permission_error", ModelErrorKind.AUTHENTICATION),
        ("billing_error", ModelErrorKind.AUTHENTICATION),
        ("request_too_large", ModelErrorKind.VALIDATION),
        ("not_found_error", ModelErrorKind.VALIDATION),
        ("of_tomorrow", ModelErrorKind.SERVICE),
    ],
)
def test_an_error_in_the_stream_is_one_of_its_kind(word: str, kind: ModelErrorKind) -> None:
    error = event("error", error={"type": word, "message": "Overloaded"}, request_id="req_1")
    with pytest.raises(ModelError, match="inside its answer: Overloaded") as caught:
        shown(begun(0, "text", text="so far"), error)

    assert caught.value.kind is kind


# Calls


def test_calls_may_come_mixed_with_their_arguments_at_once_or_all_under_one_index() -> None:
    mixed = [
        begun(0, "tool_use", id="a", name="add", input={}),
        begun(1, "tool_use", id="a", name="add", input={"a": 0}),
        arguments(0, '{"a"'),
        arguments(1, '{"a": 2}'),
        arguments(0, ": 1}"),
    ]
    at_once = [
        begun(0, "tool_use", name="add", input={"a": 1}),
        begun(0, "tool_use", name="add", input={"a": 2}),
    ]
    expected = (FunctionCall("0", "add", {"a": 1}), FunctionCall("1", "add", {"a": 2}))

    assert streamed(*mixed).content.function_calls == expected
    assert streamed(*at_once).content.function_calls == expected
    assert [call for parts in shown(*at_once, stop(0)) for part in parts if (call := part.function_call)] == [
        FunctionCall("0", "add", {}),
        expected[0],
        FunctionCall("1", "add", {}),
        expected[1],
    ]


@pytest.mark.parametrize("given", ['{"a": NaN}', "[1]", '{"a"', f'{{"a": {2**70}}}'])
def test_arguments_that_are_no_object_or_that_no_log_can_store_are_an_error(given: str) -> None:
    with pytest.raises(ModelError, match="the arguments of tool call 'add'") as caught:
        streamed(begun(0, "tool_use", name="add", input={}), arguments(0, given))
    assert caught.value.kind is ModelErrorKind.SERVICE


def test_a_call_without_a_name_is_an_error() -> None:
    with pytest.raises(ModelError, match="no name"):
        whole({"type": "tool_use", "input": {}})


def test_an_answer_that_is_cut_off_within_a_call_says_what_to_do() -> None:
    events = [begun(0, "tool_use", name="add", input={}), arguments(0, '{"a": 1')]
    with pytest.raises(ModelError, match="allow it more max_tokens") as caught:
        streamed(*events, event("message_delta", delta={"stop_reason": "max_tokens"}))

    assert not caught.value.retryable
    assert "tool call 'add'" in str(caught.value)
