"""What is said: text, calls of functions and their responses, as frozen values in ADK's JSON shape."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Blob", "Content", "FunctionCall", "FunctionResponse", "Part", "plain_copy"]


def plain_copy(value: Any) -> Any:
    """Return a copy of plain values that shares no list or dict with them."""
    found: Any = value  # narrowed to a mapping or list, the type checkers would not agree on what is in it
    given: object = value
    kind = type(given)
    if kind in _SCALARS:
        return found
    if kind is dict or isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in found.items()}
    return [plain_copy(item) for item in found] if isinstance(value, list) else found


_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})  # asked first: nearly all values are these


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A model asks for a tool.

    Attributes:
        id: Ours, not the provider's: unique in the session, given before the first event that shows the call.
        name: The tool's name.
        args: The arguments, as the model gave them.
    """

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"id": self.id, "name": self.name, "args": plain_copy(self.args)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(data.get("id") or "", data["name"], plain_copy(data.get("args") or {}))


@dataclass(frozen=True, slots=True)
class FunctionResponse:
    """What a tool answered; `id` is that of its call."""

    id: str
    name: str
    response: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"id": self.id, "name": self.name, "response": plain_copy(self.response)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(data.get("id") or "", data["name"], plain_copy(data.get("response") or {}))


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes inside a message, such as an image."""

    mime_type: str
    data: bytes

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; the bytes as base64."""
        return {"mimeType": self.mime_type, "data": base64.b64encode(self.data).decode()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(data["mimeType"], base64.b64decode(data["data"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of a message: exactly one of `text`, `function_call`, `function_response`, `inline_data`.

    `thought` marks text that the model wrote for itself. `thought_signature` is what a provider wants back,
    unread, with the part in the next request.
    """

    text: str | None = None
    thought: bool = False
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: Blob | None = None
    thought_signature: bytes | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        data: dict[str, Any] = {}
        if self.text is not None:
            data["text"] = self.text
        if self.thought:
            data["thought"] = True
        if self.function_call is not None:
            data["functionCall"] = self.function_call.to_dict()
        if self.function_response is not None:
            data["functionResponse"] = self.function_response.to_dict()
        if self.inline_data is not None:
            data["inlineData"] = self.inline_data.to_dict()
        if self.thought_signature is not None:
            data["thoughtSignature"] = base64.b64encode(self.thought_signature).decode()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        if len(data) == 1 and "text" in data:
            return cls(text=data["text"])
        call, response, blob = data.get("functionCall"), data.get("functionResponse"), data.get("inlineData")
        signature = data.get("thoughtSignature")
        return cls(
            text=data.get("text"),
            thought=bool(data.get("thought")),
            function_call=None if call is None else FunctionCall.from_dict(call),
            function_response=None if response is None else FunctionResponse.from_dict(response),
            inline_data=None if blob is None else Blob.from_dict(blob),
            thought_signature=None if signature is None else base64.b64decode(signature),
        )


@dataclass(frozen=True, slots=True)
class Content:
    """One message: who speaks (`"user"` or `"model"`) and its parts in order."""

    role: str
    parts: tuple[Part, ...]

    @classmethod
    def user(cls, text: str) -> Self:
        """Return a user's message of one text."""
        return cls("user", (Part(text=text),))

    @classmethod
    def model(cls, text: str = "", *, calls: Iterable[FunctionCall] = ()) -> Self:
        """Return a model's message: its text, if any, then its calls."""
        spoken = (Part(text=text),) if text else ()
        return cls("model", spoken + tuple(Part(function_call=call) for call in calls))

    @property
    def text(self) -> str:
        """The text parts joined, thoughts left out; `""` if there is none."""
        return "".join([part.text for part in self.parts if part.text is not None and not part.thought])

    @property
    def function_calls(self) -> tuple[FunctionCall, ...]:
        """The calls in this message, in order."""
        return tuple([part.function_call for part in self.parts if part.function_call is not None])

    @property
    def function_responses(self) -> tuple[FunctionResponse, ...]:
        """The responses in this message, in order."""
        return tuple([part.function_response for part in self.parts if part.function_response is not None])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"role": self.role, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        return cls(
            data.get("role") or "user", tuple([Part.from_dict(part) for part in data.get("parts") or ()])
        )
