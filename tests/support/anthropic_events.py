"""The events of a stream of Anthropic's Messages API, as the JSON texts that a client reads."""

import json
from typing import Any

__all__ = ["START", "arguments", "begun", "delta", "event", "signature", "stop", "text", "thinking"]

START = json.dumps({"type": "message_start", "message": {"type": "message", "content": []}})


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def begun(index: object, kind: str, **block: Any) -> str:
    return event("content_block_start", index=index, content_block={"type": kind, **block})


def delta(index: object, kind: str, **fields: Any) -> str:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def text(index: object, piece: object) -> str:
    return delta(index, "text_delta", text=piece)


def thinking(index: object, piece: object) -> str:
    return delta(index, "thinking_delta", thinking=piece)


def signature(index: object, piece: object) -> str:
    return delta(index, "signature_delta", signature=piece)


def arguments(index: object, piece: object) -> str:
    return delta(index, "input_json_delta", partial_json=piece)


def stop(index: object) -> str:
    return event("content_block_stop", index=index)
