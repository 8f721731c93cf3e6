"""`chat_request`: a `ModelRequest` as the body of a request to an OpenAI chat-completions endpoint."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest
from intermission.models.plain_values import sendable
from intermission.models.request_fields import (
    callable_name,
    configured,
    function_tool,
    json_text,
    messages,
    plain_name,
)

__all__ = ["RESERVED_FIELDS", "chat_request"]

# The fields that the runtime fills; further options may not name them.
RESERVED_FIELDS = frozenset({"messages", "model", "stream", "stream_options", "tools"})

# The words of JSON schema that the service can enforce, and the formats.
_STRICT_WORDS = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_STRICT_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)


def chat_request(model: str, request: ModelRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's JSON body.

    Thoughts are not sent: they are the model's own.

    Args:
        model: The model's name.
        request: What is asked.
        options: Further fields, such as `temperature`; those of the request's `generate_config` come first.

    Raises:
        ModelError: The conversation holds something that this wire cannot carry, or the configuration a
            field that the runtime fills.
    """
    said = messages(request, assistant=_assistant, response=_response, user=_user)
    body: dict[str, Any] = {"model": model, "messages": list(said), **options}
    if request.generate_config:
        reserved = RESERVED_FIELDS if request.output_schema is None else RESERVED_FIELDS | {"response_format"}
        body |= configured(request, reserved)
    if request.output_schema is not None:
        body["response_format"] = _response_format(request.output_schema)
    if request.tools:
        body["tools"] = [function_tool(tool) for tool in request.tools]
    if request.streaming:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = plain_name(str(schema.get("title") or "")) or "answer"
    # The root must be an object by its own words: a model that holds itself begins with $ref.
    strict = schema.get("type") == "object" and _is_strict(schema)
    form = {"name": name, "schema": sendable(schema), "strict": strict}
    return {"type": "json_schema", "json_schema": form}


def _is_strict(schema: object) -> bool:
    """Return whether a schema is one that the service can enforce to the letter.

    Each of its objects then requires all that it allows, and it is written in a part of JSON schema. To ask
    for it with another would be an error.
    """
    if not isinstance(schema, Mapping):
        return False
    fields = cast("Mapping[str, Any]", schema)
    if not fields.keys() <= _STRICT_WORDS or fields.get("format", "date") not in _STRICT_FORMATS:
        return False
    if "$ref" in fields and not fields.keys() <= {"$ref", "$defs"}:  # as pydantic describes a nested model
        return False
    named: Mapping[str, object] = fields.get("properties") or {}
    if "properties" in fields or fields.get("type") == "object":
        required: list[str] = fields.get("required") or []
        if fields.get("additionalProperties") is not False or set(required) != set(named):
            return False
    inner: list[object] = [
        *named.values(),
        *(fields.get("$defs") or {}).values(),
        *(fields.get("anyOf") or ()),
    ]
    if "items" in fields:
        inner.append(fields["items"])
    return all(map(_is_strict, inner))


def _assistant(content: Content) -> Iterator[dict[str, Any]]:
    if any(part.inline_data is not None for part in content.parts):
        raise ModelError(
            "a model's message holds inline data, which a chat-completions request cannot give back",
            kind=ModelErrorKind.CONFIGURATION,
        )
    calls = [_call(call) for call in content.function_calls]
    # A message of thoughts alone would be empty, and some servers refuse an empty one.
    if calls:
        yield {"role": "assistant", "content": content.text or None, "tool_calls": calls}
    elif content.text:
        yield {"role": "assistant", "content": content.text}


def _user(content: Content) -> Iterator[dict[str, Any]]:
    parts = [part for part in content.parts if not part.thought]
    if any(part.inline_data is not None for part in parts):
        yield {"role": "user", "content": [piece for part in parts for piece in _user_piece(part)]}
    elif any(part.text is not None for part in parts):
        yield {"role": "user", "content": content.text}


def _user_piece(part: Part) -> Iterator[dict[str, Any]]:
    if part.text is not None:
        yield {"type": "text", "text": part.text}
    elif part.inline_data is not None:
        yield {"type": "image_url", "image_url": {"url": _image_url(part.inline_data)}}


def _image_url(blob: Blob) -> str:
    if not blob.mime_type.startswith("image/"):
        raise ModelError(
            f"a chat-completions request can carry images, not inline data of type {blob.mime_type!r}",
            kind=ModelErrorKind.CONFIGURATION,
        )
    return f"data:{blob.mime_type};base64,{base64.b64encode(blob.data).decode()}"


def _call(call: FunctionCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {
            "name": callable_name(call.name),
            "arguments": json_text(call.args, f"the arguments of {call.name!r}"),
        },
    }


def _response(response: FunctionResponse) -> dict[str, Any]:
    text = json_text(response.response, f"the response of {response.name!r}")
    return {"role": "tool", "tool_call_id": response.id, "content": text}
