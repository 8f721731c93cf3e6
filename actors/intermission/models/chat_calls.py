"""`ChatCalls`: puts the tool calls of one answer together, out of the pieces that a stream brings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from intermission.content import FunctionCall
from intermission.models.failures import Failures
from intermission.models.plain_values import storable
from intermission.models.whole_text import whole_text

__all__ = ["ChatCalls"]

_READ_AT_EACH_PIECE = 4096  # characters; longer arguments are read for a partial whenever they have doubled


@dataclass(slots=True)
class _Call:
    """A tool call as far as it is known. The provider's id only tells calls apart; it goes no further."""

    position: str
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    length: int = 0
    shown: Mapping[str, Any] | None = None
    length_shown: int = 0

    def add(self, piece: str) -> None:
        self.arguments.append(piece)
        self.length += len(piece)

    def is_whole_with(self, piece: str) -> bool:
        """Return whether the arguments are complete, and `piece` repeats them."""
        if not piece or len(piece) != self.length or "".join(self.arguments) != piece:
            return False
        try:
            json.loads(piece)
        except (ValueError, RecursionError):
            return False
        return True

    def so_far(self) -> FunctionCall | None:
        """Return the call as far as it is known, `None` if that is no news or was too lately asked."""
        is_due = self.length <= _READ_AT_EACH_PIECE or self.length >= 2 * self.length_shown
        if not self.name or not (is_due or self.shown is None):
            return None
        self.length_shown = self.length
        known = _readable("".join(self.arguments), self.shown or {})
        if known == self.shown:
            return None
        self.shown = known
        return FunctionCall(self.position, self.name, known)


class ChatCalls:
    """The calls of one answer. Each has its position in the answer as its id.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._changed: dict[str, _Call] = {}

    def add(self, delta: Mapping[str, Any]) -> bool:
        """Take in a piece of a call; return whether it is one."""
        function: object = delta.get("function")
        if not isinstance(function, dict):
            return False
        fields = cast("dict[str, Any]", function)
        index, call_id, name = delta.get("index"), delta.get("id") or "", fields.get("name") or ""
        if not (isinstance(index, int | None) and isinstance(call_id, str) and isinstance(name, str)):
            return False
        name = whole_text(name)
        call = self._begun(index, call_id, name)
        if call is None:
            call = _Call(str(len(self._calls)))
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        arguments: object = fields.get("arguments") or ""
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments)
        if name and call.is_whole_with(piece):
            return True  # some servers say the whole call once more when it ends
        call.add(piece)
        self._changed[call.position] = call
        return True

    def _begun(self, index: int | None, call_id: str, name: str) -> _Call | None:
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

    def news(self) -> Iterator[FunctionCall]:
        """Yield each call of which more is known than was yielded before."""
        changed, self._changed = self._changed, {}
        for call in changed.values():
            if (known := call.so_far()) is not None:
                yield known

    def whole(self) -> list[FunctionCall]:
        """Return the calls in their order.

        Raises:
            ModelError: A call has no name, or its arguments are no JSON object that a log can store.
        """
        return [self._function_call(call) for call in self._calls]

    def _function_call(self, call: _Call) -> FunctionCall:
        text = "".join(call.arguments)
        if not call.name:
            raise self._failures.malformed("a tool call has no name; its arguments are", text or "empty")
        what = f"the arguments of tool call {call.name!r}"
        try:
            arguments: object = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise self._failures.malformed(f"{what} are not a JSON object", text) from error
        if arguments is None:  # how some servers write those of a tool that takes none
            arguments = {}
        if not isinstance(arguments, dict):
            raise self._failures.malformed(f"{what} are not a JSON object", text)
        try:
            return FunctionCall(call.position, call.name, storable(cast("dict[str, Any]", arguments)))
        except ValueError as error:
            raise self._failures.malformed(f"{what} hold {error}", text) from error


def _readable(text: str, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as far as they can be read; those from before, if they cannot."""
    if not text.strip():
        return before
    # pydantic is there if there are tools; whoever has none does without it.
    from pydantic_core import from_json

    try:
        known: object = storable(from_json(whole_text(text), allow_partial="trailing-strings"))
    except ValueError:
        return before
    return cast("dict[str, Any]", known) if isinstance(known, dict) else before
