"""`ChatWire`: scripted replies as an OpenAI chat-completions endpoint sends them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from intermission.errors import ModelErrorKind
from intermission.events import Usage
from intermission.testing.chat_history import problems, tool_problems
from intermission.testing.protocol import StreamPiece
from intermission.testing.replies import CallsReply, Cut, StreamReply, TextReply

__all__ = ["ChatWire", "models_body"]


class ChatWire:
    """See `Wire`: OpenAI chat completions."""

    content_type = "text/event-stream"
    ping = b": ping\n\n"
    end_marker = b"data: [DONE]\n\n"

    def serves(self, path: str) -> bool:
        """See `Wire.serves`."""
        return path == "/v1/chat/completions"

    def streams(self, path: str, request: Mapping[str, Any]) -> bool:
        """See `Wire.streams`."""
        return bool(request.get("stream"))

    def problems(self, request: Mapping[str, Any]) -> list[str]:
        """See `Wire.problems`."""
        histories = [f"the history is not legal: {problem}" for problem in problems(request.get("messages"))]
        tools = [f"the tools are not legal: {problem}" for problem in tool_problems(request.get("tools"))]
        return histories + tools

    def whole_body(self, reply: TextReply | CallsReply, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire.whole_body`."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.content.text or None}
        if isinstance(reply, CallsReply):
            message["tool_calls"] = [
                {"id": f"call_{index}", "type": "function", "function": _function(name, args)}
                for index, (name, args) in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
        return _object("chat.completion", request, [choice]) | {"usage": _usage(reply.usage)}

    def stream_events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]
    ) -> Iterator[StreamPiece]:
        """See `Wire.stream_events`."""
        options: Mapping[str, Any] = request.get("stream_options") or {}
        return self._events(reply, request, with_usage=bool(options.get("include_usage")))

    def _events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any], *, with_usage: bool
    ) -> Iterator[StreamPiece]:
        def event(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
            return _event(_object("chat.completion.chunk", request, [choice]))

        yield event({"role": "assistant", "content": ""})
        for piece in reply.pieces:
            if not isinstance(piece, str) or isinstance(piece, Cut):
                yield piece
            elif piece:
                yield event({"content": piece})
        if isinstance(reply, CallsReply):
            for delta in _call_deltas(reply):
                yield event({"tool_calls": [delta]})
        yield event({}, _finish_reason(reply))
        if with_usage:
            yield _event(_object("chat.completion.chunk", request, []) | {"usage": _usage(reply.usage)})

    def error_body(self, message: str, kind: ModelErrorKind, status: int) -> dict[str, Any]:
        """See `Wire.error_body`."""
        return {"error": {"message": message, "type": f"{kind.value}_error", "param": None, "code": None}}


def models_body() -> dict[str, Any]:
    """Return the JSON body of the list of models."""
    model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "intermission"}
    return {"object": "list", "data": [model]}


def _call_deltas(reply: CallsReply) -> Iterator[dict[str, Any]]:
    """Yield each call in three pieces, as the real service does: its name, then its arguments bit by bit."""
    for index, (name, args) in enumerate(reply.calls):
        arguments = _function(name, args)["arguments"]
        begun = {"name": name, "arguments": ""}
        yield {"index": index, "id": f"call_{index}", "type": "function", "function": begun}
        middle = len(arguments) // 2
        for piece in (arguments[:middle], arguments[middle:]):
            yield {"index": index, "function": {"arguments": piece}}


def _function(name: str, args: Mapping[str, Any] | str) -> dict[str, str]:
    written = args if isinstance(args, str) else json.dumps(dict(args), ensure_ascii=False)
    return {"name": name, "arguments": written}


def _finish_reason(reply: TextReply | CallsReply | StreamReply) -> str:
    return "tool_calls" if isinstance(reply, CallsReply) and reply.calls else "stop"


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def _object(kind: str, request: Mapping[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    model = str(request.get("model"))
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model, "choices": choices}


def _event(chunk: Mapping[str, Any]) -> bytes:
    # Characters as they are, not escaped: a client that cuts lines at the wrong ones has to be caught.
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
