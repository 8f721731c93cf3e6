"""`AnthropicWire`: scripted replies as Anthropic's Messages API sends them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from intermission.errors import ModelErrorKind
from intermission.testing.anthropic_history import problems, tool_problems
from intermission.testing.protocol import StreamPiece
from intermission.testing.replies import CallsReply, Cut, StreamReply, TextReply

__all__ = ["AnthropicWire"]

_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _event(**fields: Any) -> bytes:
    # Characters as they are, not escaped: a client that cuts lines at the wrong ones has to be caught.
    return f"event: {fields['type']}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


class AnthropicWire:
    """See `Wire`: Anthropic's Messages API."""

    content_type = "text/event-stream"
    ping = _event(type="ping")
    end_marker = _event(type="message_stop")

    def serves(self, path: str) -> bool:
        """See `Wire.serves`."""
        return path == "/v1/messages"

    def streams(self, path: str, request: Mapping[str, Any]) -> bool:
        """See `Wire.streams`."""
        return bool(request.get("stream"))

    def problems(self, request: Mapping[str, Any]) -> list[str]:
        """See `Wire.problems`."""
        limit: object = request.get("max_tokens")
        limits = (
            [] if isinstance(limit, int) and limit > 0 else [f"max_tokens must be a number, not {limit!r}"]
        )
        histories = [f"the history is not legal: {problem}" for problem in problems(request)]
        tools = [f"the tools are not legal: {problem}" for problem in tool_problems(request.get("tools"))]
        return limits + histories + tools

    def whole_body(self, reply: TextReply | CallsReply, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire.whole_body`."""
        text = reply.content.text
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        if isinstance(reply, CallsReply):
            for index, (name, args) in enumerate(reply.calls):
                given = args if isinstance(args, str) else dict(args)
                blocks.append({"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": given})
        return _message(request, blocks) | {"stop_reason": _stop_reason(reply), "usage": _usage(reply)}

    def stream_events(
        self, reply: TextReply | CallsReply | StreamReply, request: Mapping[str, Any]
    ) -> Iterator[StreamPiece]:
        """See `Wire.stream_events`."""
        yield _event(type="message_start", message=_message(request, []) | {"usage": _usage(reply, said=1)})
        index = 0  # of the block in hand
        has_text = False
        for piece in reply.pieces:
            if not isinstance(piece, str) or isinstance(piece, Cut):
                yield piece
            elif piece:
                if not has_text:
                    yield _begun(index, type="text", text="")
                    yield self.ping
                has_text = True
                yield _delta(index, type="text_delta", text=piece)
        if has_text:
            yield _event(type="content_block_stop", index=index)
            index += 1
        for number, (name, args) in enumerate(reply.calls if isinstance(reply, CallsReply) else ()):
            yield from _call_events(index + number, f"toolu_{number}", name, args)
        ended = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        yield _event(type="message_delta", delta=ended, usage={"output_tokens": reply.usage.output_tokens})

    def error_body(self, message: str, kind: ModelErrorKind, status: int) -> dict[str, Any]:
        """See `Wire.error_body`."""
        usual = "api_error" if status >= 500 else "invalid_request_error"
        return {"type": "error", "error": {"type": _ERRORS.get(status, usual), "message": message}}


def _call_events(index: int, call_id: str, name: str, args: Mapping[str, Any] | str) -> Iterator[bytes]:
    """Yield a call as the real service does: its name, then its arguments bit by bit."""
    written = args if isinstance(args, str) else json.dumps(dict(args), ensure_ascii=False)
    yield _begun(index, type="tool_use", id=call_id, name=name, input={})
    middle = len(written) // 2
    for piece in ("", written[:middle], written[middle:]):
        yield _delta(index, type="input_json_delta", partial_json=piece)
    yield _event(type="content_block_stop", index=index)


def _begun(index: int, **block: Any) -> bytes:
    return _event(type="content_block_start", index=index, content_block=block)


def _delta(index: int, **delta: Any) -> bytes:
    return _event(type="content_block_delta", index=index, delta=delta)


def _stop_reason(reply: TextReply | CallsReply | StreamReply) -> str:
    return "tool_use" if isinstance(reply, CallsReply) and reply.calls else "end_turn"


def _usage(reply: TextReply | CallsReply | StreamReply, said: int | None = None) -> dict[str, int]:
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens if said is None else said,
    }


def _message(request: Mapping[str, Any], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": str(request.get("model")),
        "content": blocks,
        "stop_reason": None,
        "stop_sequence": None,
    }
