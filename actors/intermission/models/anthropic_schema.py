"""`enforceable`: a JSON schema in the part of JSON schema that Anthropic's service can enforce."""

import json
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["enforceable"]

_BY_NAME = frozenset({"$defs", "definitions", "properties"})  # each holds schemas by their names
_LISTS = {"allOf": "allOf", "anyOf": "anyOf", "oneOf": "anyOf"}  # lists of schemas, and what they are called
_LIMITS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "uniqueItems",
    }
)
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)


def enforceable(schema: object) -> Any:
    """Return a schema that the service takes, and that is as close to `schema` as can be.

    Objects allow no properties but those that they name, unless they say otherwise, which the service then
    refuses. Limits of numbers, texts and lists stand in the description, where the model reads them.
    """
    if not isinstance(schema, Mapping):
        return schema
    form: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for name, value in cast("Mapping[str, Any]", schema).items():
        if name in _BY_NAME:
            form[name] = {key: enforceable(item) for key, item in value.items()}
        elif name in _LISTS:
            form[_LISTS[name]] = [enforceable(item) for item in value]
        elif name == "items":
            form[name] = enforceable(value)
        elif _is_told(name, value):
            told[name] = value
        elif name != "discriminator":  # OpenAPI's; a `oneOf` says it all
            form[name] = value
    if "$ref" in form:  # nothing but definitions may stand beside it
        return {name: form[name] for name in ("$ref", "$defs", "definitions") if name in form}
    if form.get("type") == "object" or "properties" in form:
        form.setdefault("additionalProperties", False)
    if told:
        limits = f"It must keep to {json.dumps(told)}."
        form["description"] = f"{form['description']} {limits}" if form.get("description") else limits
    return form


def _is_told(name: str, value: object) -> bool:
    """Return whether a keyword is one that the service would refuse, and the model can be told of."""
    if name == "minItems":
        return value not in (0, 1)
    return name in _LIMITS or (name == "format" and value not in _FORMATS)
