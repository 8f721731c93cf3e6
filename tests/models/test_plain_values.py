import json
import math
from typing import Any

import pytest

from intermission.models.plain_values import sendable, storable


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1.5, 2**64 - 1, -(2**63), "é😀", [], {}, {"a": [1, {"b": None}]}, nested(50)],
)
def test_what_a_log_takes_is_kept_as_it_is(value: object) -> None:
    assert storable(value) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "not finite"),
        (-math.inf, "not finite"),
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (nested(51), "nesting"),
    ],
)
def test_what_no_log_takes_is_refused_at_every_depth(value: object, reason: str) -> None:
    for place in (value, [value], {"a": [0, value]}):
        with pytest.raises(ValueError, match=reason):
            storable(place)


def test_halves_of_characters_are_made_whole_in_names_and_texts() -> None:
    assert storable({"\ud83d": ["\ude00", {"\ud83d\ude00": "\ud83d\ude00"}]}) == {
        "\ufffd": ["\ufffd", {"😀": "😀"}]
    }


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (b"\x00\xff", "AP8="),
        (2**63, 2**63),
        (1.5, 1.5),
        ((1, b""), [1, ""]),
        (True, True),
        (None, None),
    ],
)
def test_what_a_log_holds_has_a_form_in_json_at_every_depth(value: object, sent: object) -> None:
    ready = sendable({"a": [value], "b": {"c": value}})

    assert ready == {"a": [sent], "b": {"c": sent}}
    assert json.loads(json.dumps(ready, allow_nan=False)) == ready
