"""`gemini_request`: a `ModelRequest` as the body of a request to Gemini's `generateContent`."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from intermission.content import Blob, Content, FunctionCall, FunctionResponse, Part
from intermission.models.base import ModelRequest, ToolDeclaration
from intermission.models.plain_values import sendable
from intermission.models.request_fields import configured, plain_name, turns

__all__ = ["RESERVED_FIELDS", "gemini_request"]

# The fields that the runtime fills; further options may not name them. The service takes both spellings.
RESERVED_FIELDS = frozenset({"contents", "model", "systemInstruction", "system_instruction", "tools"})

_FORM_FIELDS = frozenset(
    spelling
    for name in ("responseMimeType", "responseSchema", "responseJsonSchema")
    for spelling in (name, re.sub("([A-Z])", lambda letter: f"_{letter[1].lower()}", name))
)

# Those of the request itself. All others are fields of its generationConfig.
_REQUEST_FIELDS = frozenset(
    {"cachedContent", "labels", "modelArmorConfig", "safetySettings", "serviceTier", "store", "toolConfig"}
)

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_GENERATION = re.compile(r"\bgemini-(\d+)")
_FOREIGN = b"anthropic:"  # what a signature of Anthropic's begins with

# Google's own value for the calls that no Gemini has made: it asks the service not to look for a signature.
_NO_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()


def gemini_request(
    model: str, request: ModelRequest, options: Mapping[str, Any], *, on_vertex: bool = False
) -> dict[str, Any]:
    """Return the request's JSON body.

    Thoughts are not sent, unless the service has signed them to have them back. What the service has signed
    goes back with its signature. A model of the third generation or later wants more: ids that say which
    response answers which call, and a signature of each step since the user has spoken.

    Args:
        model: The model's name.
        request: What is asked.
        options: Further fields, of the request or of its `generationConfig`, in either spelling; those of the
            request's `generate_config` come first.
        on_vertex: Whether Vertex AI is asked, which knows no ids whatever the model.

    Raises:
        ModelError: The configuration holds a field that the runtime fills.
    """
    has_form = request.output_schema is not None
    fields = _flat(options)
    if request.generate_config:
        fields |= _flat(configured(request, RESERVED_FIELDS | _FORM_FIELDS if has_form else RESERVED_FIELDS))
    config = {name: value for name, value in fields.items() if name not in _REQUEST_FIELDS}
    if has_form:
        config.pop("responseSchema", None)  # of the model's options; the service takes one form only
        schema = sendable(request.output_schema)
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    is_strict = _is_strict(model)
    said = (_message(content, with_ids=is_strict and not on_vertex) for content in request.contents)
    contents = [_content(role, pieces) for role, pieces in turns(said)]
    if is_strict:
        _sign(contents)
    body: dict[str, Any] = {"contents": contents}
    if request.instruction:
        body["systemInstruction"] = {"parts": [{"text": request.instruction}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
    if config:
        body["generationConfig"] = config
    return body | {name: value for name, value in fields.items() if name in _REQUEST_FIELDS}


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields by their names in camel case, those of a `generationConfig` beside the others."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        camel = re.sub("_([a-z])", lambda letter: letter[1].upper(), name)
        if camel == "generationConfig" and isinstance(value, Mapping):
            fields |= _flat(cast("Mapping[str, Any]", value))
        else:
            fields[camel] = value
    return fields


def _is_strict(model: str) -> bool:
    """Return whether a model matches calls and responses by ids, and demands signatures.

    Earlier ones refuse an id as a field that they do not know. The aliases that end in `-latest` have left
    those behind.
    """
    generation = _GENERATION.search(model)
    if generation is None:
        return "gemini-" in model and model.endswith("-latest")
    return int(generation[1]) >= 3


def _message(content: Content, *, with_ids: bool) -> tuple[str, list[dict[str, Any]]]:
    pieces = [_piece(part, with_ids=with_ids) for part in content.parts if _is_sent(part)]
    return "model" if content.role == "model" else "user", pieces


def _is_sent(part: Part) -> bool:
    if _signature(part) is not None:
        return True
    if part.text is not None:
        return not part.thought and bool(part.text) and not part.text.isspace()
    return not part.thought


def _signature(part: Part) -> str | None:
    signature = part.thought_signature
    if not signature or signature.startswith(_FOREIGN):
        return None
    return base64.b64encode(signature).decode()


def _content(role: str, pieces: list[dict[str, Any]]) -> dict[str, Any]:
    # Responses come first: they answer the calls of the message before.
    return {"role": role, "parts": sorted(pieces, key=lambda piece: "functionResponse" not in piece)}


def _piece(part: Part, *, with_ids: bool) -> dict[str, Any]:
    piece: dict[str, Any]
    if part.function_call is not None:
        piece = {"functionCall": _call(part.function_call, with_ids=with_ids)}
    elif part.function_response is not None:
        piece = {"functionResponse": _response(part.function_response, with_ids=with_ids)}
    elif part.inline_data is not None:
        piece = {"inlineData": _blob(part.inline_data)}
    else:
        piece = {"text": part.text or ""}
    if part.thought:
        piece["thought"] = True
    if (signature := _signature(part)) is not None:
        piece["thoughtSignature"] = signature
    return piece


def _call(call: FunctionCall, *, with_ids: bool) -> dict[str, Any]:
    return _with_id({"name": _callable_name(call.name), "args": sendable(call.args)}, call.id, with_ids)


def _response(response: FunctionResponse, *, with_ids: bool) -> dict[str, Any]:
    said = {"name": _callable_name(response.name), "response": sendable(response.response)}
    return _with_id(said, response.id, with_ids)


def _with_id(thing: dict[str, Any], call_id: str, with_ids: bool) -> dict[str, Any]:
    return thing | {"id": call_id} if with_ids and call_id else thing


def _blob(blob: Blob) -> dict[str, str]:
    return {"mimeType": blob.mime_type, "data": base64.b64encode(blob.data).decode()}


def _callable_name(name: str) -> str:
    """Return a name that the service takes. Models make up others, and one in the history stays there."""
    if _NAME.fullmatch(name):
        return name
    plain = plain_name(name)
    return plain if _NAME.fullmatch(plain) else f"_{plain}"[:64]


def _sign(contents: Sequence[dict[str, Any]]) -> None:
    """Give each step since the user has spoken a signature, where the service would miss it.

    It demands one of the first call of each. A step of another provider's model, or of the runtime, has none.
    """
    for content in reversed(contents):
        pieces: list[dict[str, Any]] = content["parts"]
        if content["role"] == "model":
            call = next((piece for piece in pieces if "functionCall" in piece), None)
            if call is not None:
                call.setdefault("thoughtSignature", _NO_SIGNATURE)
        elif not any("functionResponse" in piece for piece in pieces):
            return


def _declaration(tool: ToolDeclaration) -> dict[str, Any]:
    # The other field for them, `parameters`, takes only a part of JSON schema.
    schema = sendable(tool.parameters)
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}
