"""What models give, and what the function gets of it or the model is told."""

import enum
import json
import types
from dataclasses import dataclass
from typing import Annotated, Any, ForwardRef, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from intermission import FunctionTool
from intermission.tools import ToolArgumentError
from turns import context


class Size(BaseModel):
    height: float
    unit: Literal["cm", "in"] = "cm"


class Parcel(BaseModel):
    size: Size
    tags: list[str] = []


@dataclass
class Sender:
    name: str
    parcels: list[Parcel]


class Tree(BaseModel):
    name: str
    below: "list[Tree]" = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")


def schema(function: Any) -> Any:
    """What a model is told of a function's parameters."""
    return FunctionTool(function, name="f").declaration.parameters


SEEN: list[Any] = []


def got(function: Any, **args: Any) -> Any:
    """What a function that appends its arguments to `SEEN` has got of these."""
    SEEN.clear()
    FunctionTool(function).call(args, context())
    (found,) = SEEN
    return found


def test_a_float_takes_an_integer_and_an_integer_a_whole_float() -> None:
    def weigh(weight: float, count: int) -> None:
        SEEN.append((weight, count))

    weight, count = got(weigh, weight=3, count=2.0)
    assert (weight, count) == (3.0, 2)
    assert (type(weight), type(count)) == (float, int)


def test_models_dataclasses_and_lists_of_them_are_bound() -> None:
    def send(sender: Sender, spare: list[Size]) -> None:
        SEEN.append((sender, spare))

    parcels = [{"size": {"height": 3}, "tags": ["a"]}, {"size": {"height": 1.5, "unit": "in"}}]
    sender, spare = got(send, sender={"name": "Ada", "parcels": parcels}, spare=[{"height": 1}])

    assert sender == Sender(
        "Ada",
        [Parcel(size=Size(height=3), tags=["a"]), Parcel(size=Size(height=1.5, unit="in"))],
    )
    assert spare == [Size(height=1)]


def test_enums_and_literals_are_told_and_bound_by_their_values() -> None:
    def paint(colour: Colour, coats: Literal[1, 2]) -> None:
        SEEN.append((colour, coats))

    told = schema(paint)
    assert told["properties"]["coats"] == {"enum": [1, 2], "type": "integer"}
    assert told["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert got(paint, colour="red", coats=2) == (Colour.RED, 2)


def test_the_schema_of_a_type_that_holds_itself_by_its_name_comes_to_an_end() -> None:
    def plant(tree: Tree, notes: Json) -> None:
        SEEN.append((tree, notes))

    told = schema(plant)
    assert told["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert json.dumps(told)
    assert got(plant, tree={"name": "a", "below": [{"name": "b"}]}, notes={"a": ["b"]}) == (
        Tree(name="a", below=[Tree(name="b")]),
        {"a": ["b"]},
    )


ENDLESS = types.GenericAlias(list, (ForwardRef("ENDLESS"),))


def test_a_type_that_holds_itself_without_a_name_is_refused_when_the_tool_is_built() -> None:
    def plant(tree: Any) -> None: ...

    plant.__annotations__["tree"] = ENDLESS
    with pytest.raises(TypeError, match="tool 'f': "):
        schema(plant)


@pytest.mark.parametrize("args", [{}, {"note": None}], ids=["missing", "null"])
def test_what_takes_none_need_not_be_given(args: dict[str, Any]) -> None:
    def one(note: Optional[str]) -> None:  # noqa: UP045 - the older way to write it
        SEEN.append(note)

    def other(note: Annotated[str | None, Field(description="A note.")]) -> None:
        SEEN.append(note)

    for function in (one, other):
        assert "required" not in schema(function)
        assert got(function, **args) is None


@pytest.mark.parametrize("args", [{}, {"count": None}], ids=["missing", "null"])
def test_the_default_stands_for_null_where_none_is_not_taken(args: dict[str, Any]) -> None:
    def ship(count: int = 3) -> None:
        SEEN.append(count)

    assert got(ship, **args) == 3


def test_null_for_a_required_argument_is_wrong() -> None:
    def ship(count: int) -> None: ...

    with pytest.raises(ToolArgumentError, match="count: Input should be a valid integer"):
        FunctionTool(ship).call({"count": None}, context())


def test_a_list_or_an_object_may_be_given_as_a_string_of_json() -> None:
    def send(parcel: Parcel, tags: list[str], text: str) -> None:
        SEEN.append((parcel, tags, text))

    given = got(send, parcel='{"size": {"height": 3}}', tags=' ["a"]', text='{"a": 1}')
    assert given == (Parcel(size=Size(height=3)), ["a"], '{"a": 1}')


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"parcel": "{nonsense"}, "parcel: Input should be a valid dictionary"),
        ({"parcel": '{"size": {}}'}, "parcel.size.height: Field required"),
        ({"parcel": {"size": {"height": "tall"}}}, "parcel.size.height: Input should be a valid number"),
        ({}, "parcel: Field required"),
        ({"parcel": {"size": {"height": 1}}, "weight": 3}, "weight: Extra inputs are not permitted"),
    ],
)
def test_a_model_is_told_what_is_wrong_and_where(args: dict[str, Any], problem: str) -> None:
    def send(parcel: Parcel) -> None: ...

    with pytest.raises(ToolArgumentError, match=problem):
        FunctionTool(send).call(args, context())


def test_what_the_docstring_says_of_a_parameter_is_its_description_unless_the_annotation_says_more() -> None:
    def send(parcel: Parcel, count: Annotated[int, Field(description="How often.")] = 1) -> None:
        """Send a parcel.

        Args:
            parcel: Which.
            count: How many.
        """

    declaration = FunctionTool(send).declaration
    properties: Any = declaration.parameters["properties"]
    assert declaration.description == "Send a parcel."
    assert properties["parcel"] == {"$ref": "#/$defs/Parcel", "description": "Which."}
    assert properties["count"]["description"] == "How often."
