"""`GeminiAnswer`: puts an answer of Gemini's `generateContent` together, streamed or whole."""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from intermission.content import Blob, Content, FunctionCall, Part
from intermission.errors import ModelErrorKind
from intermission.events import Usage
from intermission.models.answer_fields import Fields, Said, token_count
from intermission.models.base import ModelResponse
from intermission.models.failures import Failures
from intermission.models.http_model import News
from intermission.models.plain_values import storable
from intermission.models.whole_text import whole_text

__all__ = ["GeminiAnswer"]

_REASONS = {"STOP": "stop", "MAX_TOKENS": "length"} | dict.fromkeys(
    (
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    ),
    "content_filter",
)

# What the model has written is no call, and the service has thrown it away: there is no answer.
_BROKEN_OFF = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)


class GeminiAnswer:
    """One answer, fed with JSON texts: each chunk of a stream, or the one body of a whole answer.

    Both have the same form: a stream's chunks hold the parts of one candidate, one after another. Pieces of
    text become one part, unless the service has signed one: what it signed stays a part of its own.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._fields = Fields(failures, "the service sent what is no Gemini answer")
        self._begun = False
        self._blocked = False
        self._parts: list[Part] = []
        self._said: Said | None = None  # a text that may go on
        self._thinks = False  # whether that is a thought
        self._calls = 0
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._finish_message = ""

    @property
    def has_begun(self) -> bool:
        """Whether there was a candidate, or the reason why there is none."""
        return self._begun

    @property
    def is_complete(self) -> bool:
        """Whether the service has said why the answer ends."""
        return self._blocked or self._finish_reason is not None

    @property
    def is_over(self) -> bool:
        """Never: the tokens, and with some models more of the answer, come behind the reason for its end."""
        return False

    def add(self, source: str) -> News:
        """Take in a chunk; return what is new in it. The first half of a character waits for the next chunk.

        Raises:
            ModelError: It is not a chunk of an answer, or it reports an error.
        """
        chunk = self._fields.read(source)
        if reported := self._failures.reported_in(chunk):
            raise reported
        self._usage = _usage(chunk.get("usageMetadata")) or self._usage
        feedback: object = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and cast("dict[str, Any]", feedback).get("blockReason"):
            self._begun = self._blocked = True
        parts: tuple[Part, ...] = ()
        says_something = False
        for value in self._fields.items(chunk.get("candidates")):
            candidate = self._fields.mapping(value)
            if candidate.get("index"):  # another answer to the same request
                continue
            news = self._add_candidate(candidate)
            parts, says_something = parts + news.parts, says_something or news.says_something
        return News(parts, says_something)

    def end(self) -> tuple[Part, ...]:
        """Take in that no chunk follows; return the parts that this adds, for a half of a character."""
        return self._end_text()

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelError: There is no answer, or the model has written one that the service cannot read.
        """
        if not self._begun:
            raise self._failures.malformed("the answer holds no candidate", self._fields.source)
        reason = self._finish_reason
        if reason in _BROKEN_OFF:
            what = f"the service broke the answer off, and says {reason}"
            raise self._failures.failed(ModelErrorKind.SERVICE, what, self._finish_message)
        self._end_text()
        finish = None if reason is None else _REASONS.get(reason, reason)
        if self._blocked:
            finish = "content_filter"
        elif finish == "stop" and self._calls:
            finish = "tool_calls"
        return ModelResponse(
            content=Content("model", tuple(self._parts)), usage=self._usage, finish_reason=finish
        )

    def _add_candidate(self, candidate: Mapping[str, Any]) -> News:
        self._begun = True
        reason: object = candidate.get("finishReason")
        if isinstance(reason, str) and reason:
            self._finish_reason = whole_text(reason)
        message: object = candidate.get("finishMessage")
        if isinstance(message, str):
            self._finish_message = message
        parts: tuple[Part, ...] = ()
        says_something = False
        for value in self._fields.items(self._fields.mapping(candidate.get("content") or {}).get("parts")):
            piece = self._fields.mapping(value)
            if piece and piece != {"text": ""}:
                says_something = True
                parts += self._add_piece(piece)
        return News(parts, says_something)

    def _add_piece(self, piece: Mapping[str, Any]) -> tuple[Part, ...]:
        """Take in one part; return what to show of it."""
        thought = bool(piece.get("thought"))
        signature = self._bytes(piece.get("thoughtSignature")) or None
        call, blob = piece.get("functionCall"), piece.get("inlineData")
        if call is not None:
            part = Part(function_call=self._call(self._fields.mapping(call)), thought_signature=signature)
        elif blob is not None:
            part = Part(
                inline_data=self._blob(self._fields.mapping(blob)),
                thought=thought,
                thought_signature=signature,
            )
        else:
            # What is none of these, such as the code that the service itself runs, is passed over.
            return self._add_text(self._fields.text(piece.get("text")), thought, signature)
        shown = self._end_text()
        self._parts.append(part)
        return (*shown, part)

    def _add_text(self, text: str, thought: bool, signature: bytes | None) -> tuple[Part, ...]:
        shown: tuple[Part, ...] = ()
        if self._said is not None and (self._thinks is not thought or signature is not None):
            shown = self._end_text()
        if signature is not None:
            signed = Part(text=whole_text(text), thought=thought, thought_signature=signature)
            self._parts.append(signed)
            return (*shown, signed) if text else shown
        if not text:
            return shown
        if self._said is None:
            self._said, self._thinks = Said(thought=thought), thought
        return shown + self._said.add(text)

    def _end_text(self) -> tuple[Part, ...]:
        """Take in that the text does not go on; return what was held back of it."""
        if self._said is None:
            return ()
        rest = self._said.end()
        self._parts += self._said.whole
        self._said = None
        return rest

    def _call(self, call: Mapping[str, Any]) -> FunctionCall:
        name = whole_text(self._fields.text(call.get("name")))
        args: object = call.get("args") or {}
        if not name:
            raise self._failures.malformed("a tool call has no name; it is", json.dumps(call))
        if not isinstance(args, dict):
            raise self._failures.malformed(
                f"the arguments of tool call {name!r} are not a JSON object", json.dumps(args)
            )
        position, self._calls = self._calls, self._calls + 1
        try:
            return FunctionCall(str(position), name, storable(cast("dict[str, Any]", args)))
        except ValueError as error:
            what = f"the arguments of tool call {name!r} hold {error}"
            raise self._failures.malformed(what, json.dumps(args)) from error

    def _blob(self, blob: Mapping[str, Any]) -> Blob:
        return Blob(whole_text(self._fields.text(blob.get("mimeType"))), self._bytes(blob.get("data")))

    def _bytes(self, value: object) -> bytes:
        text = self._fields.text(value)
        try:
            # With the letters of addresses, too, and without padding: what Google's own libraries read.
            return base64.b64decode(text.translate(_PLAIN_LETTERS) + "=" * (-len(text) % 4), validate=True)
        except ValueError as error:
            raise self._fields.malformed() from error


_PLAIN_LETTERS = str.maketrans("-_", "+/")


def _usage(value: object) -> Usage | None:
    """Return what a service says of its tokens; a count that is none counts as not reported."""
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, Any]", value)
    asked, of_tools, said, thought, total = (
        token_count(counts.get(f"{name}TokenCount"))
        for name in ("prompt", "toolUsePrompt", "candidates", "thoughts", "total")
    )
    if asked is said is thought is total is None:
        return None
    given, told = (asked or 0) + (of_tools or 0), (said or 0) + (thought or 0)
    # A count of zero is left out; the total is always there.
    complete = asked is not None and (said is not None or total is not None)
    return Usage(given, told, given + told if total is None else total, complete)
