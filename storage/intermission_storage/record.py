"""`Record`: one thing that happened in a stream, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a stream.

    Attributes:
        kind: What happened, a short name such as `"event"`.
        data: Plain values: `None`, `bool`, `int`, `float`, `str`, `bytes`, lists and string-keyed dicts.
        seq: The record's number in its stream, from 1. The log gives it; it is 0 before the record is stored.
    """

    kind: str
    data: Mapping[str, Any]
    seq: int = 0
