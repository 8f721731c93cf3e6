"""Scripted replies as an OpenAI chat-completions endpoint sends them: pure values, no sockets."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from intermission.errors import ModelErrorKind
from intermission.events import Usage
from intermission.testing.replies import CallsReply, Cut, ErrorReply, Pings, StreamReply, TextReply
from intermission.testing.sync import Gate

__all__ = ["END_MARKER", "error_body", "error_status", "models_body", "stream_events", "whole_body"]

END_MARKER = b"data: [DONE]\n\n"

_STATUSES = {
    ModelErrorKind.AUTHENTICATION: 401,
    ModelErrorKind.RATE_LIMIT: 429,
    ModelErrorKind.TIMEOUT: 504,
    ModelErrorKind.SERVICE: 500,
    ModelErrorKind.VALIDATION: 400,
    ModelErrorKind.OTHER: 418,
}


def whole_body(reply: TextReply | CallsReply, model: str) -> dict[str, Any]:
    """Return the JSON body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content.text or None}
    if isinstance(reply, CallsReply):
        message["tool_calls"] = [
            {"id": f"call_{index}", "type": "function", "function": _function(name, args)}
            for index, (name, args) in enumerate(reply.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return _object("chat.completion", model, [choice]) | {"usage": _usage(reply.usage)}


def stream_events(
    reply: TextReply | CallsReply | StreamReply, model: str, *, with_usage: bool
) -> Iterator[bytes | Gate | Pings | Cut]:
    """Yield a streamed answer, event by event and as the reply has it, all but its end marker."""

    def event(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return _event(_object("chat.completion.chunk", model, [choice]))

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
        yield _event(_object("chat.completion.chunk", model, []) | {"usage": _usage(reply.usage)})


def error_status(reply: ErrorReply) -> int | None:
    """Return the status of an answer that makes a client raise the reply's error; `None` to hang up instead.

    Raises:
        ValueError: No answer means that kind: a client finds it on its own.
    """
    if reply.status is not None:
        return reply.status
    if reply.kind is ModelErrorKind.NETWORK:
        return None
    if reply.kind not in _STATUSES:
        raise ValueError(f"no answer of a server means {reply.kind.value!r}; give error() a status")
    return _STATUSES[reply.kind]


def error_body(message: str, kind: ModelErrorKind) -> dict[str, Any]:
    """Return the JSON body of a refusal."""
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


def _object(kind: str, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model, "choices": choices}


def _event(chunk: Mapping[str, Any]) -> bytes:
    # Characters as they are, not escaped: a client that cuts lines at the wrong ones has to be caught.
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
