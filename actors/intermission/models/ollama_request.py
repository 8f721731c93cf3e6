"""`ollama_request`: a `ModelRequest` as the body of a request to Ollama's `/api/chat`."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intermission.content import Blob, Content, FunctionCall, FunctionResponse
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest
from intermission.models.plain_values import sendable
from intermission.models.request_fields import callable_name, configured, function_tool, json_text, messages

__all__ = ["RESERVED_FIELDS", "ollama_request"]

# The fields that the runtime fills; further options may not name them.
RESERVED_FIELDS = frozenset({"messages", "model", "stream", "tools"})

# What stands beside the settings of the model itself, such as `temperature`, which have a place of their own.
_FIELDS_OF_THE_REQUEST = frozenset(
    {"format", "keep_alive", "logprobs", "shift", "think", "top_logprobs", "truncate"}
)


def ollama_request(model: str, request: ModelRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's JSON body.

    Thoughts are not sent: they are the model's own.

    Args:
        model: The model's name.
        request: What is asked.
        options: Further fields: those of the request, such as `think` and `keep_alive`, and those of the
            model, such as `temperature` and `num_ctx`, which go where Ollama has them. Those of the request's
            `generate_config` come first.

    Raises:
        ModelError: The conversation holds something that this wire cannot carry, or the configuration a
            field that the runtime fills.
    """
    said = messages(request, assistant=_assistant, response=_response, user=_user)
    body: dict[str, Any] = {"model": model, "messages": list(said), "stream": request.streaming}
    further = dict(options)
    if request.generate_config:
        reserved = RESERVED_FIELDS if request.output_schema is None else RESERVED_FIELDS | {"format"}
        further |= configured(request, reserved)
    settings: dict[str, Any] = dict(further.pop("options", None) or {})
    for name, value in further.items():
        (body if name in _FIELDS_OF_THE_REQUEST else settings)[name] = value
    if settings:
        body["options"] = settings
    if request.output_schema is not None:
        body["format"] = sendable(request.output_schema)
    if request.tools:
        body["tools"] = [function_tool(tool) for tool in request.tools]
    return body


def _assistant(content: Content) -> Iterator[dict[str, Any]]:
    if any(part.inline_data is not None for part in content.parts):
        raise ModelError(
            "a model's message holds inline data, which a request to Ollama cannot give back",
            kind=ModelErrorKind.CONFIGURATION,
        )
    calls = [_call(call) for call in content.function_calls]
    if calls:
        yield {"role": "assistant", "content": content.text, "tool_calls": calls}
    elif content.text:
        yield {"role": "assistant", "content": content.text}


def _user(content: Content) -> Iterator[dict[str, Any]]:
    images = [_image(part.inline_data) for part in content.parts if part.inline_data is not None]
    if images:
        yield {"role": "user", "content": content.text, "images": images}
    elif any(part.text is not None and not part.thought for part in content.parts):
        yield {"role": "user", "content": content.text}


def _image(blob: Blob) -> str:
    if not blob.mime_type.startswith("image/"):
        raise ModelError(
            f"a request to Ollama can carry images, not inline data of type {blob.mime_type!r}",
            kind=ModelErrorKind.CONFIGURATION,
        )
    return base64.b64encode(blob.data).decode()


def _call(call: FunctionCall) -> dict[str, Any]:
    function = {"name": callable_name(call.name), "arguments": cast("dict[str, Any]", sendable(call.args))}
    return {"id": call.id, "type": "function", "function": function}


def _response(response: FunctionResponse) -> dict[str, Any]:
    # Older servers know a response by the tool's name only, newer ones by the call's id.
    return {
        "role": "tool",
        "tool_name": callable_name(response.name),
        "tool_call_id": response.id,
        "content": json_text(response.response, f"the response of {response.name!r}"),
    }
