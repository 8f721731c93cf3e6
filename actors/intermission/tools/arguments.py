"""`Arguments`: the schema of a function's parameters, and the check of what a model gives for them.

pydantic does both. This module is imported when the first tool is built, so that a program without
tools does not pay for pydantic.
"""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, cast

from pydantic import (
    ConfigDict,
    Field,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from intermission.tools.base import ToolArgumentError

__all__ = ["Arguments", "plain"]


class Arguments:
    """The parameters of a tool that a model gives.

    Args:
        tool: The tool's name, for messages.
        parameters: The function's parameters, without the one for the context.
        hints: Their annotations, resolved.

    Raises:
        TypeError: A parameter has a type that no JSON schema can describe.
    """

    def __init__(self, tool: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> None:
        fields = {
            parameter.name: _field(parameter, hints.get(parameter.name, Any)) for parameter in parameters
        }
        # A typed dict, not a model: a parameter may then have any name, `model_config` and `copy` too.
        typed = cast(Any, TypedDict)(f"{tool}_arguments", fields)
        typed.__pydantic_config__ = ConfigDict(extra="forbid")
        try:
            self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed)
            self.schema = _without_titles(self._adapter.json_schema())
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise TypeError(f"tool {tool!r}: no JSON schema for its parameters: {error.message}") from error

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them.

        Raises:
            ToolArgumentError: They do not fit; the text tells the model what is wrong with which.
        """
        try:
            return self._adapter.validate_python(dict(args))
        except ValidationError as error:
            raise ToolArgumentError(_explain(error)) from None


def plain(value: object) -> Any:
    """Return `value` as JSON has it: models, dataclasses and dates become plain values, NaN its name.

    Raises:
        ValueError: Something in it has no plain form (`pydantic_core.PydanticSerializationError`).
    """
    return from_json(to_json(value, inf_nan_mode="strings"))


def _field(parameter: inspect.Parameter, annotation: Any) -> Any:
    if parameter.default is parameter.empty:
        return annotation
    try:
        shown = {"default": plain(parameter.default)}
    except ValueError:
        shown = {}  # the function fills it in all the same; the model need not know the value
    return NotRequired[Annotated[annotation, Field(json_schema_extra=cast(Any, shown))]]


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    # Titles are derived from the names that stand beside them, `additionalProperties` is ours to check:
    # models do better without both.
    schema.pop("title", None)
    schema.pop("additionalProperties", None)
    schema.setdefault("properties", {})
    for declared in schema["properties"].values():
        declared.pop("title", None)
    return schema


def _explain(error: ValidationError) -> str:
    problems = (
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(problems)
