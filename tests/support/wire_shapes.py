"""A conversation as the bodies of requests to three providers, made as plainly as can be.

What the clients do is theirs; here it is seen that a conversation without problems needs no more than that
messages of one role are joined, texts of white space left out, and names that models make up put into letters
that the service takes.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from intermission import Content, Part
from intermission.content import plain_copy
from intermission.models import ModelRequest
from intermission.models.chat_request import chat_request
from intermission.models.gemini_request import gemini_request
from intermission.testing import anthropic_history, chat_history, gemini_history

__all__ = ["anthropic_body", "problems_on_the_wire"]


def problems_on_the_wire(contents: Sequence[Content]) -> dict[str, list[str]]:
    """Return what each provider would refuse of a conversation; `{}` if each takes it."""
    request = ModelRequest(contents=tuple(contents))
    messages = chat_request("any", request, {})["messages"]
    found = {
        "openai": chat_history.problems(messages),
        "anthropic": anthropic_history.problems(anthropic_body(contents)),
        "gemini": gemini_history.problems(gemini_request("gemini-3-pro", request, {})),
    }
    return {provider: problems for provider, problems in found.items() if problems}


def anthropic_body(contents: Sequence[Content]) -> dict[str, Any]:
    """Return the body of a request to Anthropic's Messages API."""
    return {"messages": _joined(contents, {"model": "assistant"}, "content", _block)}


def _joined(
    contents: Sequence[Content], roles: Mapping[str, str], key: str, piece: Callable[[Part], dict[str, Any]]
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for content in contents:
        role, pieces = roles.get(content.role, content.role), [piece(part) for part in _said(content)]
        if messages and messages[-1]["role"] == role:
            messages[-1][key] += pieces
        else:
            messages.append({"role": role, key: pieces})
    return messages


def _said(content: Content) -> Iterator[Part]:
    for part in content.parts:
        if part.text is None or part.text.strip():
            yield part


def _block(part: Part) -> dict[str, Any]:
    call, response = part.function_call, part.function_response
    if call is not None:
        return {"type": "tool_use", "id": call.id, "name": _name(call.name), "input": plain_copy(call.args)}
    if response is not None:
        told = json.dumps(plain_copy(response.response))
        return {"type": "tool_result", "tool_use_id": response.id, "content": told}
    assert part.text is not None
    return {"type": "text", "text": part.text}


def _name(made_up: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", made_up)
