"""`storable`: what a model's JSON may bring into the log. `sendable`: what the log holds, as JSON has it."""

import base64
import math
from collections.abc import Mapping
from typing import Any, cast

from intermission.models.whole_text import whole_text

__all__ = ["sendable", "storable"]

_MAX_DEPTH = 50  # levels; the log takes 64 in all, and some of them are the record around the value
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def storable(value: object, depth: int = 0) -> Any:
    """Return a value that came as JSON in the form that every log can store: its texts made whole.

    Raises:
        ValueError: No log can store it; the text says why.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels of nesting")
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise ValueError("an integer of more than 64 bits")
    if isinstance(value, list):
        return [storable(item, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {whole_text(name): storable(item, depth + 1) for name, item in fields.items()}
    return value


def sendable(value: object) -> Any:
    """Return a value in a form that JSON has, so that nothing a log holds keeps a session from going on.

    Bytes become base64 text; numbers that are not finite become `"NaN"`, `"Infinity"` and `"-Infinity"`.
    What is no plain value at all stays as it is.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [sendable(item) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {key: sendable(item) for key, item in cast("Mapping[Any, object]", value).items()}
    return value
