import asyncio
import datetime
import functools
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

import tree
from intermission import FunctionTool, tool
from intermission.tools import ToolArgumentError
from turns import context

CONTEXT = context()


def ship(order_id: str, count: Annotated[int, Field(description="How many.", ge=1)] = 1) -> dict[str, Any]:
    """Ship an order."""
    return {"order": order_id, "count": count}


def test_the_schema_comes_from_the_signature_and_the_description_from_the_docstring() -> None:
    declaration = FunctionTool(ship).declaration

    assert declaration.name == "ship"
    assert declaration.description == "Ship an order."
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "count": {"type": "integer", "minimum": 1, "description": "How many.", "default": 1},
        },
        "required": ["order_id"],
    }


def test_arguments_are_checked_and_converted_before_the_function_sees_them() -> None:
    assert FunctionTool(ship).call({"order_id": "7", "count": "3"}, CONTEXT) == {"order": "7", "count": 3}
    assert FunctionTool(ship).call({"order_id": "7"}, CONTEXT) == {"order": "7", "count": 1}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "order_id: Field required"),
        ({"order_id": "7", "count": 0}, "count: Input should be greater than or equal to 1"),
        ({"order_id": "7", "colour": "red"}, "colour: Extra inputs are not permitted"),
    ],
)
def test_arguments_that_do_not_fit_are_named_and_the_function_is_not_called(
    args: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ToolArgumentError, match=problem):
        FunctionTool(ship).call(args, CONTEXT)


def test_a_parameter_may_have_any_name() -> None:
    def awkward(model_config: int, copy: int, schema: int, self: int, json: int = 5) -> Any:
        return [model_config, copy, schema, self, json]

    args = {"model_config": 1, "copy": 2, "schema": 3, "self": 4}

    assert FunctionTool(awkward).call(args, CONTEXT) == {"result": [1, 2, 3, 4, 5]}


@dataclass
class Parcel:
    sent: datetime.date
    kind: Literal["letter", "box"]


def test_a_result_that_is_no_dict_is_answered_under_result() -> None:
    def weigh() -> float:
        return 1.5

    assert FunctionTool(weigh).call({}, CONTEXT) == {"result": 1.5}


def test_dataclasses_dates_tuples_and_sets_become_plain_values() -> None:
    def parcel() -> Any:
        return {"parcel": Parcel(datetime.date(2026, 1, 2), "box"), "size": (1, 2), "tags": {"a"}}

    assert FunctionTool(parcel).call({}, CONTEXT) == {
        "parcel": {"sent": "2026-01-02", "kind": "box"},
        "size": [1, 2],
        "tags": ["a"],
    }


def test_a_dataclass_can_be_an_argument() -> None:
    def send(parcel: Parcel) -> str:
        return f"{parcel.kind} of {parcel.sent.year}"

    args = {"parcel": {"sent": "2026-01-02", "kind": "box"}}

    assert FunctionTool(send).call(args, CONTEXT) == {"result": "box of 2026"}


def test_a_field_in_the_place_of_a_default_is_refused_when_the_tool_is_built() -> None:
    def count(number: int = Field(ge=1)) -> None: ...

    with pytest.raises(TypeError, match=r"Field\(…\) of 'number' stands where its default would"):
        FunctionTool(count)


def test_a_parameter_that_a_model_cannot_give_is_refused_when_the_tool_is_built() -> None:
    def spread(*args: int) -> None: ...

    def positional(x: int, /) -> None: ...

    def strange(x: threading_lock) -> None: ...

    refused: list[tuple[Callable[..., Any], str]] = [
        (spread, r"\*args"),
        (positional, "x: int"),
        (strange, "no JSON schema"),
    ]
    for func, problem in refused:
        with pytest.raises(TypeError, match=problem):
            FunctionTool(func)


class threading_lock:
    pass


def awaited(result: Any) -> Any:
    """What an async tool answers."""
    assert inspect.isawaitable(result)

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def test_an_async_function_checks_its_arguments_at_once_and_answers_when_it_is_awaited() -> None:
    async def weigh(item: str) -> Any:
        """Weigh."""
        await asyncio.sleep(0)
        return {"item": item, "sent": datetime.date(2026, 1, 2)}

    tool = FunctionTool(weigh)

    assert tool.is_async
    assert tool.declaration.description == "Weigh."
    with pytest.raises(ToolArgumentError, match="item: Field required"):
        tool.call({}, CONTEXT)
    assert awaited(tool.call({"item": "box"}, CONTEXT)) == {"item": "box", "sent": "2026-01-02"}


def test_an_async_generator_is_refused_when_the_tool_is_built() -> None:
    async def several() -> Any:
        yield 1

    with pytest.raises(TypeError, match="'several' is an async generator"):
        FunctionTool(several)


def test_a_function_without_a_name_must_be_given_one() -> None:
    with pytest.raises(TypeError, match="needs name="):
        FunctionTool(lambda: 1)


def test_a_callable_without_a_name_must_be_given_one() -> None:
    bound = functools.partial(ship, count=2)
    with pytest.raises(TypeError, match="needs name="):
        FunctionTool(bound)

    assert FunctionTool(bound, name="ship_two").call({"order_id": "7"}, CONTEXT) == {"order": "7", "count": 2}


@pytest.mark.parametrize("given", [5, "order_status", None])
def test_what_is_no_function_is_refused_by_what_it_is(given: Any) -> None:
    with pytest.raises(
        TypeError, match=f"a tool is made of a function or another callable, not of {given!r}"
    ):
        FunctionTool(given)


def test_an_annotation_that_cannot_be_resolved_is_refused_when_the_tool_is_built() -> None:
    def hidden(x: Any) -> None: ...

    hidden.__annotations__["x"] = "Nowhere"
    with pytest.raises(TypeError, match="'hidden': an annotation cannot be resolved: name 'Nowhere'"):
        FunctionTool(hidden)


def test_pydantic_is_imported_only_when_the_first_tool_is_built() -> None:
    program = "import sys, intermission; sys.exit('pydantic' in sys.modules)"
    tree.run(sys.executable, "-c", program).check()


def test_a_decorated_function_is_a_tool_and_can_still_be_called() -> None:
    @tool
    def weigh(item: str, *, unit: str = "kg") -> str:
        """Weigh."""
        return f"{item} in {unit}"

    assert isinstance(weigh, FunctionTool)
    assert (weigh.declaration.name, weigh.declaration.description, weigh.timeout) == ("weigh", "Weigh.", None)
    assert weigh("box", unit="lb") == "box in lb"
    assert weigh.call({"item": "box"}, CONTEXT) == {"result": "box in kg"}


def test_a_decorator_takes_what_a_function_tool_takes() -> None:
    @tool(name="scales", description="Scales.", timeout=3)
    async def weigh(item: str) -> str:
        return item

    assert weigh.is_async
    assert weigh.declaration == FunctionTool(weigh.func, name="scales", description="Scales.").declaration
    assert weigh.timeout == 3
    assert asyncio.run(weigh("box")) == "box"


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
def test_a_time_limit_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout of tool 'ship'"):
        FunctionTool(ship, timeout=timeout)


def test_the_arguments_that_a_tool_is_given_are_not_changed() -> None:
    def weigh(items: list[str]) -> int:
        items.clear()
        return len(items)

    args = {"items": ["box"]}
    FunctionTool(weigh).call(args, CONTEXT)

    assert args == {"items": ["box"]}
