"""`as_response`: what a function returns as JSON has it; `storable`: what of it a log takes."""

import io
import math
from collections.abc import Generator, Iterator
from typing import Any, Final, cast

from intermission.tools.base import ToolResultError
from intermission_storage import EncodingError
from intermission_storage.codec import encode_value

__all__ = ["MAX_BYTES", "MAX_DEPTH", "as_response", "plain", "storable"]

MAX_BYTES: Final = 16 * 2**20
"""How large a response may be, as it is stored, and what a call changes of the state."""

MAX_DEPTH: Final = 200
"""How deep lists and dicts may be nested in a result; one that holds itself is deeper."""

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def as_response(result: object) -> dict[str, Any]:
    """Return what a function returned as a response: a dict as it is, nothing as an empty one.

    Raises:
        ToolResultError: See `plain`.
    """
    if result is None:
        return {}
    value = plain(result)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"result": value}


def plain(value: Any) -> Any:
    """Return `value` as JSON has it: models, dataclasses and dates become plain values, NaN its name.

    Generators and open files in it are closed: nobody else will.

    Raises:
        ToolResultError: Something in it has no such form.
    """
    try:
        return _plain(value, 0)
    except Exception as error:
        _close(value, 0)
        if isinstance(error, ToolResultError):  # made anew, without the frames of all levels
            raise ToolResultError(str(error)) from error.__cause__
        raise ToolResultError(f"it has no JSON form ({type(error).__name__})") from error


def storable(response: Any, name: str = "response") -> dict[str, Any]:
    """Return a response, or something else of that name, if a log takes it.

    Raises:
        ToolResultError: It is no dict of plain values, or too large.
    """
    try:
        size = len(encode_value(response))
    except EncodingError as error:
        _close(response, 0)
        where = error.path.replace("data", name, 1)
        raise ToolResultError(f"what is at {where} has no JSON form") from error
    if size > MAX_BYTES:
        raise ToolResultError(f"it takes {size} bytes, and the most is {MAX_BYTES}; return less of it")
    found: dict[str, Any] = response
    return found


def _plain(value: Any, depth: int) -> Any:
    found: Any = value  # narrowed, the type checkers would not agree on what is in it
    given: object = value
    kind = type(given)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float and math.isfinite(value):
        return value
    if depth > MAX_DEPTH:
        raise ToolResultError(f"it is nested deeper than {MAX_DEPTH} levels, or holds itself")
    if isinstance(value, dict):
        return {
            key if type(key) is str else _key(key): _plain(item, depth + 1) for key, item in found.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in found]
    if isinstance(value, Iterator | io.IOBase):
        # Not to be read to its end here: it may have none.
        raise ToolResultError(
            f"it holds a value of type {kind.__name__}; return what that yields, as a list or a text"
        )
    return _of_object(value)


def _of_object(value: object) -> Any:
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        return from_json(to_json(value, inf_nan_mode="strings"))
    except PydanticSerializationError as error:
        raise ToolResultError(
            f"it holds a value of type {type(value).__name__}, which has no JSON form"
        ) from error


def _key(key: object) -> str:
    return str(next(iter(_of_object({key: None}))))


def _close(value: Any, depth: int) -> None:
    found: Any = value
    if isinstance(value, Generator | io.IOBase):
        found.close()
    elif depth <= MAX_DEPTH and isinstance(value, dict | list | tuple):
        for item in found.values() if isinstance(value, dict) else found:
            _close(item, depth + 1)
