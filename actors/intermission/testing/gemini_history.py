"""What Gemini's `generateContent` would refuse of a request, in its conversation. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

__all__ = ["problems"]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_CALL, _RESPONSE = "functionCall", "functionResponse"
_KINDS = ("text", "inlineData", "fileData", _CALL, _RESPONSE)
_ROLES_OF = {_CALL: "model", _RESPONSE: "user"}


def problems(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the `systemInstruction` and the `contents` of a request; `[]` if nothing is.

    Where models differ, these are the rules of the strictest: newer ones take two contents of one role.

    The contents are of the user and of the model in turn, and begin and end with the user; each has parts,
    and each part is one thing, and not empty unless it is signed. Behind a content with function calls stands
    one with as many responses, in the order of the calls, with their names, and with their ids if the two
    have some; there are no other responses.
    """
    found: list[str] = []
    system: object = body.get("systemInstruction")
    if system is not None:
        parts = _parts(_fields(system))
        found += (f"systemInstruction: {problem}" for problem in (*_of_parts(parts), *_empty(parts)))
    contents: object = body.get("contents")
    if not isinstance(contents, list) or not contents:
        return [*found, "contents must be a list that is not empty"]
    given = [_fields(content) for content in cast("list[object]", contents)]
    before: str | None = None
    asked: list[Mapping[str, Any]] = []
    for index, content in enumerate(given):
        role, parts = str(content.get("role")), _parts(content)
        wrong = [*_of_content(role, before, parts), *_of_parts(parts), *_of_responses(parts, asked)]
        found += (f"contents[{index}]: {problem}" for problem in wrong)
        before, asked = role, _things(parts, _CALL)
    if asked:
        found.append(f"contents[{len(given)}]: 0 responses to {len(asked)} calls")
    if before == "model":
        found.append(f"contents[{len(given) - 1}]: a conversation does not end with the model")
    return found


def _of_content(role: str, before: str | None, parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if role not in ("user", "model"):
        yield f"there is no role {role!r}"
    elif before is None and role != "user":
        yield "a conversation does not begin with the model"
    elif role == before:
        yield f"the {role} speaks twice in a row"
    yield from _empty(parts)
    for kind, whose in _ROLES_OF.items():
        if role != whose and _things(parts, kind):
            yield f"a {kind} of the {role}"


def _empty(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not parts:
        yield "there are no parts"


def _of_parts(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for index, part in enumerate(parts):
        kinds = [kind for kind in _KINDS if part.get(kind) is not None]
        if len(kinds) != 1:
            yield f"parts[{index}] is {len(kinds)} things instead of one"
        elif part.get("text") == "" and not part.get("thoughtSignature"):
            yield f"parts[{index}]: the text is empty"
    for call in _things(parts, _CALL):
        yield from _of_thing(call, "args", "arguments")
    for response in _things(parts, _RESPONSE):
        if response.get("response") is None:
            yield f"the response of {response.get('name')!r} is missing"
        yield from _of_thing(response, "response", "response")


def _of_thing(thing: Mapping[str, Any], key: str, what: str) -> Iterator[str]:
    name: object = thing.get("name")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield f"{name!r} cannot be the name of a function"
    if not isinstance(thing.get(key), dict | None):
        yield f"the {what} of {name!r} must be an object"


def _of_responses(parts: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how a content fails to answer the calls of the one before it."""
    given = _things(parts, _RESPONSE)
    if len(given) != len(asked):
        yield f"{len(given)} responses to {len(asked)} calls"
        return
    for call, response in zip(asked, given, strict=True):
        if call.get("name") != response.get("name"):
            yield f"a response of {response.get('name')!r} stands where {call.get('name')!r} was called"
        ids = call.get("id"), response.get("id")
        if None not in ids and ids[0] != ids[1]:
            yield f"the response {ids[1]!r} stands where {ids[0]!r} was called"


def _parts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts: object = content.get("parts")
    return [_fields(part) for part in cast("list[object]", parts)] if isinstance(parts, list) else []


def _things(parts: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [_fields(part[kind]) for part in parts if part.get(kind) is not None]


def _fields(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
