"""`ChatAnswer`: puts an answer of an OpenAI chat-completions endpoint together, streamed or whole."""

from typing import Any, Literal, cast

from intermission.content import Content, Part
from intermission.events import Usage
from intermission.models.answer_fields import Fields, Said, token_count, usage_of
from intermission.models.base import ModelResponse
from intermission.models.chat_calls import ChatCalls
from intermission.models.failures import Failures
from intermission.models.http_model import News
from intermission.models.whole_text import whole_text

__all__ = ["ChatAnswer"]

_END_MARKER = "[DONE]"


class ChatAnswer:
    """One answer, fed with JSON texts: each chunk of a stream, or the one body of a whole answer.

    Args:
        failures: Makes the errors.
        field: Where a choice holds what the model says: `"delta"` in a stream, else `"message"`.
    """

    def __init__(self, failures: Failures, field: Literal["delta", "message"]) -> None:
        self._failures = failures
        self._fields = Fields(failures, "the service sent what is no chat completion")
        self._field = field
        self._begun = False
        self._thoughts = Said(thought=True)
        self._texts = Said(thought=False)
        self._calls = ChatCalls(failures)
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._refused = False
        self._marked = False

    @property
    def has_begun(self) -> bool:
        """Whether there was a choice."""
        return self._begun

    @property
    def is_complete(self) -> bool:
        """Whether the end marker has come."""
        return self._marked

    @property
    def is_over(self) -> bool:
        """The same: nothing belongs to an answer behind its end marker."""
        return self._marked

    def add(self, source: str) -> News:
        """Take in a chunk; return what is new in it. The first half of a character waits for the next chunk.

        Raises:
            ModelError: It is not a chunk of an answer, or it reports an error.
        """
        if self._field == "delta" and source.strip() == _END_MARKER:
            self._marked = True
            return News()
        chunk = self._fields.read(source)
        if reported := self._failures.reported_in(chunk):
            raise reported
        self._usage = _usage(chunk.get("usage")) or self._usage
        parts: tuple[Part, ...] = ()
        says_something = False
        for choice in self._fields.items(chunk.get("choices")):
            news = self._add_choice(choice)
            parts, says_something = parts + news.parts, says_something or news.says_something
        return News(parts, says_something)

    def end(self) -> tuple[Part, ...]:
        """Take in that no chunk follows; return the parts that this adds, for a half of a character."""
        return self._thoughts.end() + self._texts.end()

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelError: There is no answer, or the arguments of a call are not a JSON object.
        """
        if not self._begun:
            raise self._failures.malformed("the answer holds no choice", self._fields.source)
        self.end()
        calls = tuple(Part(function_call=call) for call in self._calls.whole())
        return ModelResponse(
            content=Content("model", self._thoughts.whole + self._texts.whole + calls),
            usage=self._usage,
            finish_reason="refusal" if self._refused else self._finish_reason,
        )

    def _add_choice(self, value: object) -> News:
        choice = self._fields.mapping(value)
        if choice.get("index"):  # another answer to the same request; none was asked for
            return News()
        self._begun = True
        self._usage = _usage(choice.get("usage")) or self._usage  # where Moonshot's stream has it
        reason: object = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = _REASONS.get(reason, whole_text(reason))
        said = self._fields.mapping(choice.get(self._field) or {})
        deltas = self._fields.items(said.get("tool_calls"))
        for delta in deltas:
            if not self._calls.add(self._fields.mapping(delta)):
                raise self._fields.malformed()
        # Servers agree on no name for what the model thinks; some send it under both.
        thought = self._fields.text(said.get("reasoning_content") or said.get("reasoning"))
        # A refusal comes in a field of its own; it is what the model says all the same.
        refusal = self._fields.text(said.get("refusal"))
        content = said.get("content")
        if isinstance(content, list):  # of parts, as in a request: Mistral's models that think send it so
            thought, content = self._in_parts(cast("list[object]", content), thought)
        text = self._fields.text(content) or refusal
        self._refused = self._refused or bool(refusal)
        parts = self._thoughts.add(thought) + self._texts.add(text)
        if deltas:
            parts += tuple(Part(function_call=call) for call in self._calls.news())
        return News(parts, bool(text or thought or deltas))

    def _in_parts(self, parts: list[object], thought: str) -> tuple[str, str]:
        """Return what content in parts holds of thoughts, behind `thought`, and of texts."""
        text = ""
        for value in parts:
            part = self._fields.mapping(value)
            if part.get("type") == "thinking":
                thought += self._in_parts(self._fields.items(part.get("thinking")), "")[1]
            else:
                text += self._fields.text(part.get("text"))
        return thought, text


# The older and the neighbours' words for the same.
_REASONS = {"function_call": "tool_calls", "max_tokens": "length", "eos": "stop", "end_turn": "stop"}


def _usage(value: object) -> Usage | None:
    """Return what a service says of its tokens; a count that is none counts as not reported."""
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, Any]", value)
    given, said, total = (
        token_count(counts.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    return usage_of(given, said, total)
