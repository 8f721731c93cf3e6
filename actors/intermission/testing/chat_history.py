"""What an OpenAI chat-completions service would refuse of a request, in its messages and its tools. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

__all__ = ["problems", "tool_problems"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_INSTRUCTIONS = frozenset({"system", "developer"})
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID_LENGTH = 40  # characters


def problems(messages: object) -> list[str]:
    """Return what is wrong with the messages of a request, with their indexes; `[]` if nothing is.

    They must be a list that is not empty and begins with instructions or the user. Each has a role that
    there is and says something. An assistant's calls have ids that differ, names and arguments that are a
    JSON object, and exactly one tool message each, directly behind them; there are no other tool messages.
    """
    if not isinstance(messages, list) or not messages:
        return ["messages must be a list that is not empty"]
    given = cast("list[object]", messages)
    found: list[str] = []
    open_calls: set[str] = set()
    spoken = False  # whether anything but instructions has come
    for index, value in enumerate(given):
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        role: object = message.get("role")
        if role != "tool" and open_calls:
            found.append(f"messages[{index}]: no tool message answers {_listed(open_calls)} before it")
            open_calls = set()
        found += (f"messages[{index}]: {problem}" for problem in _of_message(role, message, spoken=spoken))
        if role == "assistant":
            open_calls = _ids(message)
        elif role == "tool":
            answered: object = message.get("tool_call_id")
            if answered not in open_calls:
                found.append(f"messages[{index}]: {answered!r} is no call that waits for its tool message")
            open_calls -= {answered}
        spoken = spoken or role not in _INSTRUCTIONS
    if open_calls:
        found.append(f"messages[{len(given)}]: no tool message answers {_listed(open_calls)}")
    return found


def tool_problems(tools: object) -> list[str]:
    """Return what is wrong with the tools of a request; `[]` if nothing is, or there are none.

    Each is a function with a name of its own, of letters, digits, `_` and `-`.
    """
    if tools is None:
        return []
    if not isinstance(tools, list) or not tools:
        return ["tools must be a list that is not empty; leave it out"]
    found, seen = list[str](), set[str]()
    for index, tool in enumerate(cast("list[object]", tools)):
        fields = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        function: object = fields.get("function")
        name = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
        if fields.get("type") != "function" or not (isinstance(name, str) and _NAME.fullmatch(name)):
            found.append(f"tools[{index}]: {name!r} cannot be the name of a function")
        elif name in seen:
            found.append(f"tools[{index}]: two functions have the name {name!r}")
        else:
            seen.add(name)
    return found


def _of_message(role: object, message: Mapping[str, Any], *, spoken: bool) -> Iterator[str]:
    """Yield what is wrong with a message, whatever stands around it but for `spoken`."""
    if role not in _ROLES:
        yield f"there is no role {role!r}"
        return
    content: object = message.get("content")
    if role in _INSTRUCTIONS and spoken:
        yield f"a {role} message must stand at the beginning"
    if role in ("assistant", "tool") and not spoken:
        yield f"a conversation does not begin with the {role}"
    if role == "assistant":
        yield from _of_assistant(content, message)
    elif role == "tool":
        if not isinstance(content, str):
            yield "the content of a tool message must be a text"
    elif not (isinstance(content, str | list) and content):
        yield f"the {role} says nothing"


def _of_assistant(content: object, message: Mapping[str, Any]) -> Iterator[str]:
    calls: object = message.get("tool_calls")
    if content is not None and not (isinstance(content, str | list) and content):
        yield "the assistant's content is empty; leave it out"
    if calls is None:
        if content is None:
            yield "the assistant neither says nor calls anything"
        return
    if not isinstance(calls, list) or not calls:
        yield "tool_calls must be a list that is not empty"
        return
    seen: set[object] = set()
    for call in cast("list[object]", calls):
        fields = cast("dict[str, Any]", call) if isinstance(call, dict) else {}
        call_id: object = fields.get("id")
        if not (isinstance(call_id, str) and 0 < len(call_id) <= _ID_LENGTH):
            yield f"a call's id must be a text of 1 to {_ID_LENGTH} characters, not {call_id!r}"
        elif call_id in seen:
            yield f"two calls have the id {call_id!r}"
        seen.add(call_id if isinstance(call_id, str) else None)
        yield from _of_function(fields)


def _of_function(call: Mapping[str, Any]) -> Iterator[str]:
    function: object = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        yield "a call must have the type 'function' and a function"
        return
    fields = cast("dict[str, Any]", function)
    name, arguments = fields.get("name"), fields.get("arguments")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield f"{name!r} cannot be the name of a function"
    try:
        is_object = isinstance(json.loads(arguments) if isinstance(arguments, str) else None, dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        yield f"the arguments of {name!r} must be the text of a JSON object"


def _ids(message: Mapping[str, Any]) -> set[str]:
    calls: object = message.get("tool_calls")
    if not isinstance(calls, list):
        return set()
    fields = [cast("dict[str, Any]", call) for call in cast("list[object]", calls) if isinstance(call, dict)]
    return {call["id"] for call in fields if isinstance(call.get("id"), str)}


def _listed(calls: set[str]) -> str:
    return ", ".join(map(repr, sorted(calls)))
