"""What Anthropic's Messages API would refuse of a request, in its conversation. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

__all__ = ["problems", "tool_problems"]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_USE, _TOOL_RESULT = "tool_use", "tool_result"
_ROLES = ("user", "assistant")
_ROLES_OF = {
    "text": ("user", "assistant"),
    "image": ("user",),
    "document": ("user",),
    "thinking": ("assistant",),
    "redacted_thinking": ("assistant",),
    _TOOL_USE: ("assistant",),
    _TOOL_RESULT: ("user",),
    # What tools did that the service runs itself: these go back as they came.
    "server_tool_use": ("assistant",),
    "mcp_tool_use": ("assistant",),
    "mcp_tool_result": ("assistant",),
    "web_search_tool_result": ("assistant",),
    "web_fetch_tool_result": ("assistant",),
    "code_execution_tool_result": ("assistant",),
}


def problems(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the `system` and the `messages` of a request; `[]` if nothing is.

    Where models differ, these are the rules of the strictest: some join messages of one role, or go on with
    what the assistant said last.

    The messages are of the user and of the assistant in turn, begin and end with the user, and none is empty
    or holds an empty text. The calls of an assistant have ids that differ, in the whole conversation, and
    the very next message holds one result for each, before anything else; there are no other results.
    """
    found = list(_of_system(body.get("system")))
    messages: object = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages must be a list that is not empty"]
    given = [_fields(message) for message in cast("list[object]", messages)]
    before: str | None = None
    asked: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(given):
        role, blocks = str(message.get("role")), _blocks(message.get("content"))
        wrong = [*_of_message(role, before, blocks), *_of_results(blocks, asked), *_of_calls(blocks, seen)]
        found += (f"messages[{index}]: {problem}" for problem in wrong)
        before, asked = role, _ids(blocks, _TOOL_USE, "id")
        seen.update(asked)
    if asked:
        found.append(f"messages[{len(given)}]: no tool_result answers {_listed(asked)}")
    if before == "assistant":
        found.append(f"messages[{len(given) - 1}]: a conversation does not end with the assistant")
    return found


def tool_problems(tools: object) -> list[str]:
    """Return what is wrong with the tools of a request; `[]` if nothing is, or there are none.

    Each has a name of its own, of letters, digits, `_` and `-`, and the schema of an object.
    """
    if tools is None:
        return []
    if not isinstance(tools, list) or not tools:
        return ["tools must be a list that is not empty; leave it out"]
    found, seen = list[str](), set[str]()
    for index, tool in enumerate(map(_fields, cast("list[object]", tools))):
        name: object = tool.get("name")
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            found.append(f"tools[{index}]: {name!r} cannot be the name of a tool")
        elif name in seen:
            found.append(f"tools[{index}]: two tools have the name {name!r}")
        else:
            seen.add(name)
        if _fields(tool.get("input_schema")).get("type") != "object":
            found.append(f"tools[{index}]: the input_schema of {name!r} must be that of an object")
    return found


def _of_system(system: object) -> Iterator[str]:
    if system is None:
        return
    blocks = _blocks(system)
    if not blocks or any(block.get("type") != "text" or _is_blank(block.get("text")) for block in blocks):
        yield "the system is empty; leave it out"


def _of_message(role: str, before: str | None, blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if role not in _ROLES:
        yield f"there is no role {role!r}"
    elif before is None and role != "user":
        yield "a conversation does not begin with the assistant"
    elif role == before:
        yield f"the {role} speaks twice in a row"
    if not blocks:
        yield f"the {role} says nothing"
    elif role == "assistant" and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
        yield "the last block of the assistant is a thought"
    for index, block in enumerate(blocks):
        kind = str(block.get("type"))
        if kind not in _ROLES_OF:
            yield f"content[{index}]: there is no block of type {kind!r}"
        elif role in _ROLES and role not in _ROLES_OF[kind]:
            yield f"content[{index}]: a {kind} block of the {role}"
        if kind == "text" and _is_blank(block.get("text")):
            yield f"content[{index}]: the text is empty"
        if kind == "thinking" and not block.get("signature"):
            yield f"content[{index}]: what was thought is not signed"


def _of_results(blocks: Sequence[Mapping[str, Any]], asked: Sequence[str]) -> Iterator[str]:
    """Yield how a message fails to answer the calls of the one before it."""
    answered = _ids(blocks, _TOOL_RESULT, "tool_use_id")
    if missing := [call for call in asked if call not in answered]:
        yield f"no tool_result answers {_listed(missing)}"
    if orphans := [call for call in answered if call not in asked]:
        yield f"a tool_result for {_listed(orphans)}, which the message before it does not call"
    if len(set(answered)) < len(answered):
        yield "two results for one call"
    if any(block.get("type") != _TOOL_RESULT for block in blocks[: len(answered)]):
        yield "something stands before its tool_result blocks"
    for block in blocks:
        content: object = block.get("content")
        if block.get("type") == _TOOL_RESULT and not isinstance(content, str | list | None):
            yield "the content of a tool_result must be a text or blocks"


def _of_calls(blocks: Sequence[Mapping[str, Any]], seen: set[str]) -> Iterator[str]:
    earlier = set(seen)
    for block in blocks:
        if block.get("type") != _TOOL_USE:
            continue
        call_id, name = block.get("id"), block.get("name")
        if not (isinstance(call_id, str) and _ID.fullmatch(call_id)):
            yield f"a call's id must be of letters, digits, _ and -, not {call_id!r}"
        elif call_id in earlier:
            yield f"another call has the id {call_id!r}"
        else:
            earlier.add(call_id)
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            yield f"{name!r} cannot be the name of a tool"
        if not isinstance(block.get("input"), dict):
            yield f"the input of {name!r} must be an object"


def _blocks(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_fields(block) for block in cast("list[object]", content)] if isinstance(content, list) else []


def _ids(blocks: Sequence[Mapping[str, Any]], kind: str, key: str) -> list[str]:
    return [str(block.get(key)) for block in blocks if block.get("type") == kind]


def _fields(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_blank(text: object) -> bool:
    return not (isinstance(text, str) and text.strip())


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids))
