"""The rules that OpenAI's chat endpoint has for a conversation, as a pure check."""

from collections.abc import Mapping, Sequence
from typing import Any

from intermission.models.base import ModelRequest
from intermission.models.chat_request import chat_request

__all__ = ["broken_rules", "broken_rules_of"]


def broken_rules_of(request: ModelRequest) -> list[str]:
    """Return the rules that a request breaks when it is sent to a chat endpoint."""
    return broken_rules(chat_request("any", request, {})["messages"])


def broken_rules(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rules that a conversation breaks, each with the number of the message."""
    broken: list[str] = []
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        calls = [call["id"] for call in message.get("tool_calls", ())]
        if role == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                broken.append(f"{number}: a response to no open call")
            continue
        if open_calls:
            broken.append(f"{number}: calls {open_calls} are not answered before it")
            open_calls = []
        if not content and not calls:
            broken.append(f"{number}: it is empty")
        if calls and role != "assistant":
            broken.append(f"{number}: calls of the role {role}")
        if role not in {"system", "user", "assistant"}:
            broken.append(f"{number}: the role {role}")
        if len(set(calls)) < len(calls) or not all(calls):
            broken.append(f"{number}: call ids {calls}")
        open_calls = calls
    if open_calls:
        broken.append(f"end: calls {open_calls} are not answered")
    return broken
