"""`ChatAnswer`: puts an answer of an OpenAI chat-completions endpoint together, streamed or whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from intermission.content import Content, FunctionCall
from intermission.events import Usage
from intermission.models.base import ModelResponse
from intermission.models.failures import Failures
from intermission.models.plain_values import storable
from intermission.models.whole_text import TextPieces, whole_text

__all__ = ["ChatAnswer"]

_MOST_TOKENS = 2**53  # beyond it not every reader of JSON keeps each digit, and no count is real


@dataclass(slots=True)
class _Call:
    """A tool call as far as it is known. The provider's id only tells calls apart; it goes no further."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class ChatAnswer:
    """One answer, fed with JSON texts: each chunk of a stream, or the one body of a whole answer.

    Args:
        failures: Makes the errors.
        field: Where a choice holds what the model says: `"delta"` in a stream, else `"message"`.
    """

    def __init__(self, failures: Failures, field: Literal["delta", "message"]) -> None:
        self._failures = failures
        self._field = field
        self._begun = False
        self._text: list[str] = []
        self._pieces = TextPieces()
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage: Usage | None = None

    def add(self, source: str) -> str:
        """Take in a chunk; return the text that it adds, `""` for none.

        The first half of a character waits for the next chunk.

        Raises:
            ModelError: It is not a chunk of an answer, or it reports an error.
        """
        try:
            chunk = self._object(json.loads(source), source)
        except ValueError as error:
            raise self._malformed(source) from error
        if reported := self._failures.reported_in(chunk):
            raise reported
        self._usage = _usage(chunk.get("usage")) or self._usage
        return "".join(
            self._add_choice(choice, source) for choice in self._list(chunk.get("choices"), source)
        )

    def end(self) -> str:
        """Take in that no chunk follows; return the text that this adds, for a half of a character."""
        rest = self._pieces.end()
        self._text.append(rest)
        return rest

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelError: There is no answer, or the arguments of a call are not a JSON object.
        """
        if not self._begun:
            raise self._failures.malformed("the answer holds no choice", "")
        self.end()
        calls = [self._function_call(call) for call in self._calls]
        return ModelResponse(content=Content.model("".join(self._text), calls=calls), usage=self._usage)

    def _add_choice(self, value: object, source: str) -> str:
        choice = self._object(value, source)
        if choice.get("index"):  # another answer to the same request; none was asked for
            return ""
        self._begun = True
        said = self._object(choice.get(self._field) or {}, source)
        for delta in self._list(said.get("tool_calls"), source):
            self._add_call(self._object(delta, source), source)
        # A refusal comes in a field of its own; it is what the model says all the same.
        text = said.get("content") or said.get("refusal") or ""
        if not isinstance(text, str):
            raise self._malformed(source)
        shown = self._pieces.add(text)
        self._text.append(shown)
        return shown

    def _add_call(self, delta: Mapping[str, Any], source: str) -> None:
        function = self._object(delta.get("function"), source)
        index, call_id, name = delta.get("index"), delta.get("id") or "", function.get("name") or ""
        if not (isinstance(index, int | None) and isinstance(call_id, str) and isinstance(name, str)):
            raise self._malformed(source)
        name = whole_text(name)
        call = self._begun_call(index, call_id, name)
        if call is None:
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        arguments: object = function.get("arguments") or ""
        call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _begun_call(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that a delta goes on with, `None` if it begins one.

        By its index, as the protocol has it. Some servers leave the index out, or give every call of an
        answer the same; then a name begins a call, unless it repeats that of the call with the same id.
        """
        if index is not None:
            call = self._by_index.get(index)
        elif name:
            call = next((call for call in self._calls if call_id and call.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or not name:
            return call
        is_other = (call.name and call.name != name) or (call_id and call.id and call.id != call_id)
        return None if is_other else call

    def _function_call(self, call: _Call) -> FunctionCall:
        text = "".join(call.arguments)
        if not call.name:
            raise self._failures.malformed("a tool call has no name; its arguments are", text or "empty")
        what = f"the arguments of tool call {call.name!r}"
        try:
            arguments: object = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise self._failures.malformed(f"{what} are not a JSON object", text) from error
        if not isinstance(arguments, dict):
            raise self._failures.malformed(f"{what} are not a JSON object", text)
        try:
            return FunctionCall("", call.name, storable(cast("dict[str, Any]", arguments)))
        except ValueError as error:
            raise self._failures.malformed(f"{what} hold {error}", text) from error

    def _object(self, value: object, source: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._malformed(source)
        return cast("dict[str, Any]", value)

    def _list(self, value: object, source: str) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._malformed(source)
        return cast("list[object]", value)

    def _malformed(self, source: str) -> Exception:
        return self._failures.malformed("the service sent what is no chat completion", source)


def _usage(value: object) -> Usage | None:
    """Return what a service says of its tokens; a count that is none counts as not reported."""
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, Any]", value)
    given, said, total = (
        _count(counts.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    if given is said is total is None:
        return None
    known = (given or 0) + (said or 0)
    complete = given is not None and said is not None
    return Usage(given or 0, said or 0, known if total is None else total, complete)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
