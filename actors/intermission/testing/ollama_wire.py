"""`OllamaWire`: scripted replies as Ollama's `/api/chat` sends them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intermission.errors import ModelErrorKind
from intermission.testing.chat_history import problems, tool_problems
from intermission.testing.protocol import StreamPiece
from intermission.testing.replies import CallsReply, Cut, StreamReply, TextReply

__all__ = ["OllamaWire", "ollama_problems"]


class OllamaWire:
    """See `Wire`: a stream has a line for each piece, and its last line says that it is done."""

    content_type = "application/x-ndjson"
    ping = b"\n"
    end_marker = b""

    def serves(self, path: str) -> bool:
        """See `Wire.serves`."""
        return path == "/api/chat"

    def streams(self, path: str, request: Mapping[str, Any]) -> bool:
        """See `Wire.streams`."""
        return request.get("stream") is not False

    def problems(self, request: Mapping[str, Any]) -> list[str]:
        """See `Wire.problems`."""
        histories = [
            f"the history is not legal: {problem}" for problem in ollama_problems(request.get("messages"))
        ]
        return histories + [
            f"the tools are not legal: {problem}" for problem in tool_problems(request.get("tools"))
        ]

    def whole_body(self, reply: TextReply | CallsReply, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire.whole_body`."""
        said = {"content": reply.content.text} | _calls(reply)
        return _line(request, said) | _done(reply)

    def stream_events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]
    ) -> Iterator[StreamPiece]:
        """See `Wire.stream_events`."""
        for piece in reply.pieces:
            if not isinstance(piece, str) or isinstance(piece, Cut):
                yield piece
            elif piece:
                yield _encoded(_line(request, {"content": piece}))
        if calls := _calls(reply):
            yield _encoded(_line(request, {"content": ""} | calls))
        yield _encoded(_line(request, {"content": ""}) | _done(reply))

    def error_body(self, message: str, kind: ModelErrorKind, status: int) -> dict[str, Any]:
        """See `Wire.error_body`."""
        return {"error": message}


def ollama_problems(messages: object) -> list[str]:
    """Return what is wrong with the messages of a request to Ollama; `[]` if nothing is.

    The order is that of chat completions: see `intermission.testing.chat_history`. Arguments are objects and
    no texts of them, every content is a text, and images stand beside it.
    """
    if not isinstance(messages, list):
        return problems(messages)
    found: list[str] = []
    told: list[object] = []
    for index, value in enumerate(cast("list[object]", messages)):
        message = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
        if not isinstance(message.get("content"), str):
            found.append(f"messages[{index}]: the content is not a text")
        images: object = message.pop("images", None)
        if images is not None:
            listed = cast("list[object]", images) if isinstance(images, list) else [None]
            if not all(isinstance(image, str) for image in listed):
                found.append(f"messages[{index}]: the images are not a list of texts")
            message["content"] = message.get("content") or "an image"
        if message.get("tool_calls"):
            message["tool_calls"] = [_as_in_chat(call) for call in message["tool_calls"]]
            message["content"] = message.get("content") or None
        told.append(message)
    return found + problems(told)


def _as_in_chat(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    # Anything but an object is left as it is, which no text of one is either.
    function["arguments"] = json.dumps(arguments) if isinstance(arguments, dict) else None
    return {**call, "function": function}


def _calls(reply: TextReply | CallsReply | StreamReply) -> dict[str, Any]:
    if not isinstance(reply, CallsReply) or not reply.calls:
        return {}
    functions = [
        {"index": index, "name": name, "arguments": args} for index, (name, args) in enumerate(reply.calls)
    ]
    return {"tool_calls": [{"function": function} for function in functions]}


def _done(reply: TextReply | CallsReply | StreamReply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": usage.input_tokens,
        "eval_count": usage.output_tokens,
    }


def _line(request: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", **said}
    created = "2026-01-01T00:00:00Z"
    return {"model": str(request.get("model")), "created_at": created, "message": message, "done": False}


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"
