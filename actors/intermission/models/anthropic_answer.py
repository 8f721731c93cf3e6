"""`AnthropicAnswer`: puts one answer of Anthropic's Messages API together, streamed or whole."""

import json
from collections.abc import Mapping
from typing import Any, cast

from intermission.content import Content, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models.answer_fields import token_count
from intermission.models.anthropic_blocks import Block, CallBlock, block_of
from intermission.models.base import ModelResponse
from intermission.models.chat_calls import ChatCalls
from intermission.models.failures import Failures
from intermission.models.http_model import News
from intermission.models.whole_text import whole_text

__all__ = ["AnthropicAnswer"]

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}

# A prompt's tokens, each counted in one of these: new, taken out of the cache, or put into it.
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicAnswer:
    """One answer, fed with JSON texts: each event of a stream, or the one body of a whole answer.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._source = ""
        self._begun = False
        self._over = False
        self._blocks: list[Block] = []
        self._by_index: dict[object, Block] = {}
        self._calls = ChatCalls(failures)
        self._call_count = 0
        self._inputs: dict[str, int] = {}
        self._output: int | None = None
        self._finish_reason: str | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there was a message."""
        return self._begun

    @property
    def is_complete(self) -> bool:
        """Whether the message was said to be over."""
        return self._over

    @property
    def is_over(self) -> bool:
        """The same: nothing belongs to a message behind that."""
        return self._over

    def add(self, source: str) -> News:
        """Take in an event, or a whole answer; return what is new in it. Unknown events say nothing.

        Raises:
            ModelError: It is none, or it reports an error.
        """
        self._source = source
        try:
            event = _object(json.loads(source))
            # The event that begins a message has it in the field where others have that of an error.
            if event.get("type") != "message_start" and (reported := self._failures.reported_in(event)):
                raise reported
            return self._add(event)
        except ValueError as error:
            raise self._malformed() from error

    def end(self) -> tuple[Part, ...]:
        """Take in that no event follows; return the parts that this adds, for a half of a character."""
        try:
            return tuple(part for block in self._blocks for part in block.end())
        except ValueError as error:
            raise self._malformed() from error

    def response(self) -> ModelResponse:
        """Return the whole answer, its parts in the order in which the service gave them.

        Raises:
            ModelError: There is no answer, or the arguments of a call are not a JSON object.
        """
        if not self._begun:
            raise self._failures.malformed("the answer holds no message", self._source)
        self.end()
        try:
            calls = self._calls.whole()
        except ModelError as error:
            if self._finish_reason != "length":
                raise
            what = "the answer was cut off within a call of a tool; allow it more max_tokens"
            raise self._failures.failed(ModelErrorKind.VALIDATION, what, str(error)) from error
        return ModelResponse(
            content=Content("model", tuple(part for block in self._blocks for part in block.whole(calls))),
            usage=self._usage(),
            finish_reason=self._finish_reason,
        )

    def _add(self, event: Mapping[str, Any]) -> News:
        match event.get("type"):
            case "content_block_delta":
                return self._add_delta(event)
            case "content_block_start":
                return self._begin_block(event.get("index"), _object(event.get("content_block")))
            case "content_block_stop":
                return self._end_block(event)
            case "message_start":
                self._begun = True
                self._count(_object(event.get("message")).get("usage"), is_last=False)
            case "message_delta":
                self._end_message(_object(event.get("delta")), event.get("usage"))
            case "message_stop":
                self._over = True
            case "message":
                self._begun = True
                for index, block in enumerate(_list(event.get("content"))):
                    self._begin_block(index, _object(block))
                self._end_message(event, event.get("usage"))
            case _:  # pings, and what the service may come to send
                pass
        return News()

    def _begin_block(self, index: object, fields: Mapping[str, Any]) -> News:
        block = block_of(fields, self._calls, self._call_count)
        self._call_count += isinstance(block, CallBlock)
        # What comes late for a block would be shown late, and stand earlier in the whole.
        rest = self._blocks[-1].end() if self._blocks else ()
        self._blocks.append(block)
        self._by_index[_index(index)] = block
        parts = rest + block.begin(fields)
        return News(parts, bool(parts) or fields.get("type") != "text")

    def _add_delta(self, event: Mapping[str, Any]) -> News:
        block, delta = self._by_index.get(_index(event.get("index"))), _object(event.get("delta"))
        if block is None or not (block is self._blocks[-1] or isinstance(block, CallBlock)):
            raise ValueError("a piece belongs to no block, or to one that is over")
        return News(block.add(delta), any(value for name, value in delta.items() if name != "type"))

    def _end_block(self, event: Mapping[str, Any]) -> News:
        block = self._by_index.get(_index(event.get("index")))
        return News(block.end() if block is not None else ())

    def _end_message(self, fields: Mapping[str, Any], usage: object) -> None:
        reason: object = fields.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = _REASONS.get(reason, whole_text(reason))
        self._count(usage, is_last=True)

    def _count(self, usage: object, *, is_last: bool) -> None:
        """Take in how many tokens there were so far. At the beginning those of the answer are an estimate."""
        if not isinstance(usage, dict):
            return
        counts = cast("dict[str, Any]", usage)
        for name in _INPUTS:
            if (count := token_count(counts.get(name))) is not None:
                self._inputs[name] = max(count, self._inputs.get(name, 0))
        if is_last and (count := token_count(counts.get("output_tokens"))) is not None:
            self._output = count

    def _usage(self) -> Usage | None:
        if not self._inputs and self._output is None:
            return None
        given, said = sum(self._inputs.values()), self._output or 0
        return Usage(given, said, given + said, "input_tokens" in self._inputs and self._output is not None)

    def _malformed(self) -> ModelError:
        return self._failures.malformed("the service sent what is no message", self._source)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("something stands where an object must")
    return cast("dict[str, Any]", value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("something stands where a list must")
    return cast("list[object]", value)


def _index(value: object) -> int | None:
    if not isinstance(value, int | None):
        raise ValueError("something stands where an index must")
    return value
