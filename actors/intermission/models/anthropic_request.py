"""`anthropic_request`: a `ModelRequest` as the body of a request to Anthropic's Messages API."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.anthropic_schema import enforceable
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.plain_values import sendable
from intermission.models.request_fields import callable_name, configured, json_text, turns

__all__ = ["BLOCK_MARK", "RESERVED_FIELDS", "THOUGHT_MARK", "anthropic_request"]

# The fields that the runtime fills; further options may not name them.
RESERVED_FIELDS = frozenset({"messages", "model", "stream", "system", "tools"})

# What stands before a `Part.thought_signature` of ours, so that each provider is sent only its own: before
# the signature of a thought, and before the JSON of a whole block that goes back as it came.
THOUGHT_MARK = b"anthropic:thinking:"
BLOCK_MARK = b"anthropic:block:"

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})  # the service refuses a message that ends in one
_MAX_TOKENS = 8192  # of an answer; the service demands a limit, and every model that it still has takes this


def anthropic_request(model: str, request: ModelRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's JSON body.

    Thoughts are sent only as the service gave and signed them. Of texts, those of white space are left out.

    Args:
        model: The model's name.
        request: What is asked.
        options: Further fields, such as `thinking`; those of the request's `generate_config` come first.

    Raises:
        ModelError: The conversation holds something that this wire cannot carry, or the configuration a
            field that the runtime fills.
    """
    body: dict[str, Any] = {"model": model, "messages": _messages(request.contents), **options}
    if request.generate_config:
        body |= configured(request, RESERVED_FIELDS)
    body.setdefault("max_tokens", _MAX_TOKENS + _thinking_tokens(body.get("thinking")))
    if request.instruction.strip():
        body["system"] = request.instruction
    if request.output_schema is not None:
        body["output_config"] = _output_config(request, body.get("output_config"))
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.streaming:
        body["stream"] = True
    return body


def _thinking_tokens(thinking: object) -> int:
    """Return the tokens that a model may think for; they count as tokens of the answer."""
    budget = (
        cast("Mapping[str, object]", thinking).get("budget_tokens") if isinstance(thinking, Mapping) else 0
    )
    return budget if isinstance(budget, int) else 0


def _output_config(request: ModelRequest, given: object) -> dict[str, Any]:
    """Return the form of the answer, beside what else is said of it, such as the effort."""
    own: object = request.generate_config.get("output_config")
    if isinstance(own, Mapping) and "format" in own:
        raise ModelError(
            "generate_config may not hold output_config.format beside an output_schema, which fills it",
            kind=ModelErrorKind.CONFIGURATION,
        )
    others: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    form = {"type": "json_schema", "schema": enforceable(sendable(request.output_schema))}
    return {**others, "format": form}


def _messages(contents: tuple[Content, ...]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for role, blocks in turns(map(_said, contents)):
        if role == "user":
            # The results come first: on this wire they begin the message behind the one with their calls.
            blocks.sort(key=lambda block: block["type"] != "tool_result")
        messages.append({"role": role, "content": blocks})
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"][-1]
        if last["type"] == "text":  # the model is to go on with it, and the service refuses space at its end
            last["text"] = last["text"].rstrip()
    return messages


def _said(content: Content) -> tuple[str, list[dict[str, Any]]]:
    if content.role == "model":
        said = [block for part in content.parts for block in _assistants(part)]
        while said and said[-1]["type"] in _THOUGHTS:  # an answer of thoughts alone, or with no text behind
            del said[-1]
        return "assistant", said
    return "user", [block for part in content.parts for block in _users(part)]


def _assistants(part: Part) -> Iterator[dict[str, Any]]:
    signature = part.thought_signature or b""
    if signature.startswith(BLOCK_MARK):
        yield sendable(json.loads(signature.removeprefix(BLOCK_MARK)))
    elif part.thought:
        if signature.startswith(THOUGHT_MARK):
            signed = signature.removeprefix(THOUGHT_MARK).decode()
            yield {"type": "thinking", "thinking": part.text or "", "signature": signed}
    elif part.function_call is not None:
        yield _call(part.function_call)
    elif part.inline_data is not None:
        raise ModelError(
            "a model's message holds inline data, which a request to the Messages API cannot give back",
            kind=ModelErrorKind.CONFIGURATION,
        )
    else:
        yield from _text(part)


def _users(part: Part) -> Iterator[dict[str, Any]]:
    if part.thought:
        return
    if part.function_response is not None:
        yield _result(part.function_response)
    elif part.inline_data is not None:
        yield _data(part.inline_data)
    else:
        yield from _text(part)


def _text(part: Part) -> Iterator[dict[str, Any]]:
    if part.text and not part.text.isspace():  # the service refuses others
        yield {"type": "text", "text": part.text}


def _call(call: FunctionCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": callable_name(call.name), "input": sendable(call.args)}


def _result(response: FunctionResponse) -> dict[str, Any]:
    text = json_text(response.response, f"the response of {response.name!r}")
    return {"type": "tool_result", "tool_use_id": response.id, "content": text}


def _data(blob: Blob) -> dict[str, Any]:
    if blob.mime_type.startswith("image/"):
        kind = "image"
    elif blob.mime_type == "application/pdf":
        kind = "document"
    else:
        raise ModelError(
            f"a request to the Messages API can carry images and PDFs, not inline data of type "
            f"{blob.mime_type!r}",
            kind=ModelErrorKind.CONFIGURATION,
        )
    data = base64.b64encode(blob.data).decode()
    return {"type": kind, "source": {"type": "base64", "media_type": blob.mime_type, "data": data}}


def _tool(tool: ToolDeclaration) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object", **sendable(tool.parameters)},
    }
