"""`GeminiWire`: scripted replies as Gemini's `generateContent` sends them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from intermission.errors import ModelErrorKind
from intermission.events import Usage
from intermission.testing.gemini_history import problems
from intermission.testing.protocol import StreamPiece
from intermission.testing.replies import CallsReply, Cut, StreamReply, TextReply

__all__ = ["GeminiWire"]

# Of the Gemini API, and of Vertex AI.
_PATH = re.compile(
    r"/(v1beta/(?:models|tunedModels)/[^/]+|v1/projects/[^/]+/locations/[^/]+/publishers/google/models/[^/]+)"
    r":(generateContent|streamGenerateContent)"
)

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiWire:
    """See `Wire`: Gemini, at the paths of the Gemini API and of Vertex AI."""

    content_type = "text/event-stream"
    ping = b": ping\r\n\r\n"
    end_marker = b""

    def serves(self, path: str) -> bool:
        """See `Wire.serves`."""
        return _PATH.fullmatch(path) is not None

    def streams(self, path: str, request: Mapping[str, Any]) -> bool:
        """See `Wire.streams`."""
        return path.endswith(":streamGenerateContent")

    def problems(self, request: Mapping[str, Any]) -> list[str]:
        """See `Wire.problems`."""
        return [f"the history is not legal: {problem}" for problem in problems(request)]

    def whole_body(self, reply: TextReply | CallsReply, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire.whole_body`."""
        said = [{"text": reply.content.text}] if reply.content.text else []
        parts, reason = _end(reply)
        return _body([*said, *parts], reason, reply.usage)

    def stream_events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]
    ) -> Iterator[StreamPiece]:
        """See `Wire.stream_events`."""
        for piece in reply.pieces:
            if not isinstance(piece, str) or isinstance(piece, Cut):
                yield piece
            elif piece:
                yield _event(_body([{"text": piece}]))
        # As the real service does: each call in a chunk of its own, and the reason for the end in the last.
        *before, last = [[part] for part in _end(reply)[0]] or [[{"text": ""}]]
        for parts in before:
            yield _event(_body(parts))
        yield _event(_body(last, _end(reply)[1], reply.usage))

    def error_body(self, message: str, kind: ModelErrorKind, status: int) -> dict[str, Any]:
        """See `Wire.error_body`."""
        return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "UNKNOWN")}}


def _end(reply: TextReply | CallsReply | StreamReply) -> tuple[Sequence[dict[str, Any]], str]:
    """Return the parts of the calls, and the reason for the end. What is no call is thrown away."""
    calls: list[dict[str, Any]] = []
    for name, given in reply.calls if isinstance(reply, CallsReply) else ():
        args = _read(given) if isinstance(given, str) else dict(given)
        if args is None:
            return (), "MALFORMED_FUNCTION_CALL"
        calls.append({"functionCall": {"name": name, "args": args}})
    return calls, "STOP"


def _read(written: str) -> dict[str, Any] | None:
    try:
        args: object = json.loads(written or "{}")
    except ValueError:
        return None
    return cast("dict[str, Any]", args) if isinstance(args, dict) else None


def _body(
    parts: Sequence[Mapping[str, Any]], finish_reason: str | None = None, usage: Usage | None = None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "scripted", "responseId": "scripted"}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    if usage is not None:
        body["usageMetadata"] = {
            "promptTokenCount": usage.input_tokens,
            "candidatesTokenCount": usage.output_tokens,
            "totalTokenCount": usage.total_tokens,
        }
    return body


def _event(body: Mapping[str, Any]) -> bytes:
    # Characters as they are, not escaped: a client that cuts lines at the wrong ones has to be caught.
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\r\n\r\n"
