"""What a function may return, and what becomes of it."""

import datetime
import enum
import io
import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from intermission import FunctionTool
from intermission.tools import ToolResultError
from intermission.tools.results import MAX_BYTES, MAX_DEPTH, plain, storable
from turns import context


class Place(NamedTuple):
    x: int
    y: float


class Kind(enum.StrEnum):
    BOX = "box"


class Parcel(BaseModel):
    sent: datetime.date
    kind: Kind


RESPONSES: list[tuple[Any, dict[str, Any]]] = [
    (None, {}),
    (True, {"result": True}),
    (0, {"result": 0}),
    ("", {"result": ""}),
    ([], {"result": []}),
    ({}, {}),
    ({"a": None}, {"a": None}),
    ([1, {"a": [2.5]}], {"result": [1, {"a": [2.5]}]}),
    (Place(1, 2.5), {"result": [1, 2.5]}),
    ({1: {"b"}, Kind.BOX: (1,)}, {"1": ["b"], "box": [1]}),
    (OrderedDict(a=1), {"a": 1}),
    (Kind.BOX, {"result": "box"}),
    (Parcel(sent=datetime.date(2026, 1, 2), kind=Kind.BOX), {"sent": "2026-01-02", "kind": "box"}),
    ([math.nan, -math.inf, 1e300], {"result": ["NaN", "-Infinity", 1e300]}),
]


@pytest.mark.parametrize(("result", "response"), RESPONSES)
def test_a_dict_is_the_response_nothing_is_an_empty_one_and_all_else_stands_under_result(
    result: Any, response: dict[str, Any]
) -> None:
    told: Any = FunctionTool(lambda: result, name="f").call({}, context())

    assert told == response
    assert storable(told) is told


def test_a_result_shares_nothing_with_what_the_function_has_returned() -> None:
    kept: dict[str, list[int]] = {"a": [1]}
    told: Any = FunctionTool(lambda: kept, name="f").call({}, context())
    kept["a"].append(2)

    assert told == {"a": [1]}


def nested(depth: int) -> Any:
    """Lists in lists."""
    return [nested(depth - 1)] if depth else 1


def endless() -> Iterator[int]:
    while True:
        yield 1


def circle() -> Any:
    """A dict that holds itself."""
    made: dict[str, Any] = {}
    made["it"] = made
    return made


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (object(), "it holds a value of type object, which has no JSON form"),
        ({"a": [object()]}, "it holds a value of type object"),
        (lambda: 1, "it holds a value of type function"),
        (endless(), "it holds a value of type generator; return what that yields"),
        (iter([1]), "it holds a value of type list_iterator"),
        (map(str, [1]), "it holds a value of type map"),
        (io.StringIO("text"), "it holds a value of type StringIO"),
        (circle(), "or holds itself"),
        (nested(MAX_DEPTH + 2), "nested deeper than 200 levels"),
        ({object(): 1}, "which has no JSON form"),
        (b"\xff", "no JSON form"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_has_no_json_form_is_refused_by_what_it_is(result: Any, problem: str) -> None:
    with pytest.raises(ToolResultError, match=problem):
        plain(result)


def test_generators_and_files_in_a_result_that_is_refused_are_closed() -> None:
    ended: list[str] = []

    def letters(name: str) -> Iterator[str]:
        try:
            yield name
        finally:
            ended.append(name)

    generators, file = [letters("a"), letters("b")], io.StringIO("text")
    for generator in generators:
        next(generator)
    with pytest.raises(ToolResultError):
        plain({"all": generators, "file": (file,)})

    assert ended == ["a", "b"]
    assert file.closed


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({"a": "\ud800"}, "what is at response.a has no JSON form"),
        ({"a": [2**70]}, r"what is at response.a\[0\] has no JSON form"),
        ({"a": math.nan}, "what is at response.a has no JSON form"),
        ({1: 2}, "what is at response has no JSON form"),
        (7, "what is at response has no JSON form"),
        ({"a": "x" * MAX_BYTES}, f"it takes {MAX_BYTES + 13} bytes, and the most is {MAX_BYTES}"),
    ],
    ids=["broken text", "large int", "nan", "key", "no dict", "too large"],
)
def test_what_a_log_would_refuse_is_told_by_where_it_stands(response: Any, problem: str) -> None:
    with pytest.raises(ToolResultError, match=problem):
        storable(response)


def test_a_file_that_a_tool_of_ones_own_returns_is_closed() -> None:
    file = io.StringIO("text")
    with pytest.raises(ToolResultError):
        storable({"file": file})

    assert file.closed
