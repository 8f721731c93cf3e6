"""What the requests to all providers have in common: further fields, names, turns, and values as JSON."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

from intermission.content import Content, FunctionResponse
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.plain_values import sendable

__all__ = ["callable_name", "configured", "function_tool", "json_text", "messages", "plain_name", "turns"]

PieceT = TypeVar("PieceT")

_NAME_LENGTH = 64  # characters; the most that the services allow for the name of a function or a schema
_NOT_IN_NAMES = r"[^a-zA-Z0-9_-]"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def configured(request: ModelRequest, reserved: AbstractSet[str]) -> Mapping[str, Any]:
    """Return the request's `generate_config` as further fields of its body.

    Raises:
        ModelError: It holds a reserved field, one that the runtime fills.
    """
    if taken := sorted(reserved & request.generate_config.keys()):
        raise ModelError(
            f"generate_config may not hold {', '.join(taken)}: the runtime fills these itself",
            kind=ModelErrorKind.CONFIGURATION,
        )
    return cast("dict[str, Any]", sendable(request.generate_config))


def plain_name(name: str) -> str:
    """Return a name with `_` for what the services do not take, cut to the length that they allow."""
    return re.sub(_NOT_IN_NAMES, "_", name)[:_NAME_LENGTH]


def callable_name(name: str) -> str:
    """Return a name that the service takes. Models make up others, and one in the history stays there."""
    return name if _NAME.fullmatch(name) else plain_name(name)


def json_text(value: Mapping[str, Any], what: str) -> str:
    """Return what a call or a response holds as the JSON that the model reads.

    Args:
        value: Its plain values.
        what: Names it in the error.

    Raises:
        ModelError: It is nothing that JSON can hold.
    """
    try:
        # Readable characters, not escapes: this text is what the model reads.
        return json.dumps(sendable(value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{what} cannot be put into JSON: {error}", kind=ModelErrorKind.VALIDATION
        ) from error


def turns(said: Iterable[tuple[str, list[PieceT]]]) -> Iterator[tuple[str, list[PieceT]]]:
    """Yield who speaks and what they say, in turn: the messages of one role joined, empty ones left out.

    Args:
        said: The role of each message, and its pieces in the provider's form.
    """
    for role, messages in groupby((message for message in said if message[1]), itemgetter(0)):
        yield role, [piece for _, pieces in messages for piece in pieces]


def messages(
    request: ModelRequest,
    *,
    assistant: Callable[[Content], Iterable[dict[str, Any]]],
    response: Callable[[FunctionResponse], dict[str, Any]],
    user: Callable[[Content], Iterable[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """Yield the messages of a conversation as chat completions and their relatives order them.

    Args:
        request: What is asked.
        assistant: Gives what the model has said, as messages.
        response: Gives a message with the response to a call.
        user: Gives what the user says beside responses, as messages.
    """
    if request.instruction:
        yield {"role": "system", "content": request.instruction}
    for content in request.contents:
        if content.role == "model":
            yield from assistant(content)
        else:
            # The responses come first: on these wires they follow the message with their calls directly.
            yield from map(response, content.function_responses)
            yield from user(content)


def function_tool(tool: ToolDeclaration) -> dict[str, Any]:
    """Return a tool as chat completions and their relatives declare it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": sendable(tool.parameters),
        },
    }
