"""The blocks of an answer of Anthropic's Messages API, put together out of their pieces."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from intermission.content import FunctionCall, Part
from intermission.models.answer_fields import Said
from intermission.models.anthropic_request import BLOCK_MARK, THOUGHT_MARK
from intermission.models.chat_calls import ChatCalls
from intermission.models.plain_values import storable
from intermission.models.whole_text import whole_text

__all__ = ["Block", "CallBlock", "block_of", "text_of"]

logger = logging.getLogger(__name__)

# Blocks that mean nothing to the runtime, and that the service wants back as they came: what a model thought
# and nobody may read, and what tools did that the service runs itself.
_KEPT = frozenset({"redacted_thinking", "server_tool_use", "mcp_tool_use", "container_upload"})


class Block(Protocol):
    """One block. A `ValueError` of its methods means that a piece makes no sense."""

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        """Take in the block as it begins, or the whole of it; return what can be shown."""
        ...

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        """Take in a piece; return what it adds to what is shown."""
        ...

    def end(self) -> tuple[Part, ...]:
        """Take in that no piece follows; return what that adds. A second call does nothing."""
        ...

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        """Return the block as parts of a message, given all the calls of the answer."""
        ...


def block_of(fields: Mapping[str, Any], calls: ChatCalls, number: int) -> Block:
    """Return a block, before it begins, for the fields that it begins with.

    Args:
        fields: Its fields.
        calls: Puts the calls of the answer together.
        number: How many of those there are so far.
    """
    kind = text_of(fields.get("type"))
    if kind == "text":
        return _TextBlock()
    if kind == "thinking":
        return _ThoughtBlock()
    if kind == "tool_use":
        return CallBlock(calls, number)
    if kind in _KEPT or kind.endswith("_tool_result"):
        return _KeptBlock()
    logger.warning("a block of type %r in the answer of a model is left out", kind)
    return _UnknownBlock()


def text_of(value: object) -> str:
    """Return a text; `""` for null.

    Raises:
        ValueError: It is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("something stands where a text must")
    return value


class _TextBlock:
    """What the model says. Its citations are left out: they point into what was sent."""

    def __init__(self) -> None:
        self._said = Said(thought=False)

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        return self._said.add(text_of(fields.get("text")))

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        return self._said.add(text_of(delta.get("text")))

    def end(self) -> tuple[Part, ...]:
        return self._said.end()

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        return self._said.whole


class _ThoughtBlock:
    """What the model thinks, with the signature that makes the service take it back."""

    def __init__(self) -> None:
        self._said = Said(thought=True)
        self._signature = ""

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        return self.add(fields)

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        self._signature = text_of(delta.get("signature")) or self._signature
        return self._said.add(text_of(delta.get("thinking")))

    def end(self) -> tuple[Part, ...]:
        return self._said.end()

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        if not self._signature:  # of a server that signs nothing, and wants nothing back
            return self._said.whole
        signature = THOUGHT_MARK + whole_text(self._signature).encode()
        # Also without a text, as the service gives it if it is not to show what was thought.
        return (Part(text=self._said.text, thought=True, thought_signature=signature),)


class CallBlock:
    """A call of a tool.

    Args:
        calls: Puts the calls of the answer together.
        number: Which of them it is.
    """

    def __init__(self, calls: ChatCalls, number: int) -> None:
        self._calls = calls
        self._number = number
        self._given: object = None  # arguments that came with the beginning, as long as no piece did

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        self._given = fields.get("input")
        return self._news(fields.get("id"), text_of(fields.get("name")), "")

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        piece = text_of(delta.get("partial_json"))
        if piece:
            self._given = None
        return self._news("", "", piece)

    def end(self) -> tuple[Part, ...]:
        given, self._given = self._given, None
        return self._news("", "", json.dumps(given)) if given else ()

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        return (Part(function_call=calls[self._number]),)

    def _news(self, call_id: object, name: str, arguments: str) -> tuple[Part, ...]:
        delta = {"index": self._number, "id": call_id, "function": {"name": name, "arguments": arguments}}
        if not self._calls.add(delta):
            raise ValueError("a call makes no sense")
        return tuple(Part(function_call=call) for call in self._calls.news())


class _KeptBlock:
    """A block that goes back as it came, unread; shown as a thought of no text."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._input: list[str] = []

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        self._fields = dict(fields)
        return ()

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        self._input.append(text_of(delta.get("partial_json")))
        return ()

    def end(self) -> tuple[Part, ...]:
        text = "".join(self._input)
        self._input.clear()
        if text:
            self._fields["input"] = json.loads(text)
        storable(self._fields)  # or it could never be sent again, and no request of the session would be
        return ()

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        block = BLOCK_MARK + json.dumps(self._fields).encode()
        return (Part(text="", thought=True, thought_signature=block),)


class _UnknownBlock:
    """A block that is no part of what the runtime knows of the protocol."""

    def begin(self, fields: Mapping[str, Any]) -> tuple[Part, ...]:
        return ()

    def add(self, delta: Mapping[str, Any]) -> tuple[Part, ...]:
        return ()

    def end(self) -> tuple[Part, ...]:
        return ()

    def whole(self, calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
        return ()
