"""`Arguments`: the schema of a function's parameters, and the check of what a model gives for them.

pydantic does both. This module is imported when the first tool is built, so that a program without
tools does not pay for pydantic.
"""

import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NotRequired, cast

from pydantic import (
    ConfigDict,
    Field,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, from_json
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from intermission.tools.base import ToolArgumentError, ToolResultError
from intermission.tools.results import plain

__all__ = ["Arguments"]

_UNIONS = (typing.Union, types.UnionType)


class Arguments:
    """The parameters of a tool that a model gives.

    Args:
        tool: The tool's name, for messages.
        parameters: The function's parameters, without those that the model does not give.
        hints: Their annotations, resolved.
        descriptions: What the docstring says of them; what an annotation says goes before.

    Raises:
        TypeError: A parameter has a type that no JSON schema can describe.
    """

    def __init__(
        self,
        tool: str,
        parameters: Iterable[inspect.Parameter],
        hints: Mapping[str, Any],
        descriptions: Mapping[str, str],
    ) -> None:
        fields: dict[str, Any] = {}
        # Parameters without a default that take None: a model may leave them out, the function may not.
        self._nones: list[str] = []
        for parameter in parameters:
            annotation = hints.get(parameter.name, Any)
            if parameter.default is not parameter.empty:
                annotation = _with_default(tool, parameter, annotation)
            elif _takes_none(annotation):
                annotation = NotRequired[annotation]
                self._nones.append(parameter.name)
            fields[parameter.name] = annotation
        # A typed dict, not a model: a parameter may then have any name, `model_config` and `copy` too.
        typed = cast(Any, TypedDict)(f"{tool}_arguments", fields)
        typed.__pydantic_config__ = ConfigDict(extra="forbid")
        self._optional: frozenset[str] = typed.__optional_keys__
        try:
            self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed)
            self.schema = _tidy(self._adapter.json_schema(), descriptions)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise TypeError(f"tool {tool!r}: no JSON schema for its parameters: {error.message}") from error
        except RecursionError as error:
            raise TypeError(
                f"tool {tool!r}: a type of its parameters holds itself without a name; define it as a model, "
                "a dataclass or a TypeAliasType"
            ) from error

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them.

        Two habits of models are put up with: null for an argument that may be left out, and a list or an
        object as a string of JSON.

        Raises:
            ToolArgumentError: They do not fit; the text tells the model what is wrong with which.
        """
        try:
            values = self._adapter.validate_python(dict(args))
        except ValidationError as error:
            repaired = self._repaired(args, error.errors(include_url=False))
            if repaired is None:
                raise ToolArgumentError(_explain(error)) from None
            try:
                values = self._adapter.validate_python(repaired)
            except ValidationError as still:
                raise ToolArgumentError(_explain(still)) from None
        for name in self._nones:
            values.setdefault(name, None)
        return values

    def _repaired(self, args: Mapping[str, Any], problems: list[ErrorDetails]) -> dict[str, Any] | None:
        repaired = dict(args)
        for problem in problems:
            name = problem["loc"][0] if problem["loc"] else None
            if not isinstance(name, str) or name not in repaired:
                continue
            given = repaired[name]
            if given is None and name in self._optional:
                del repaired[name]
            elif isinstance(given, str) and given.lstrip()[:1] in {"{", "["}:
                try:
                    repaired[name] = from_json(given)
                except ValueError:
                    continue
        return None if repaired == args else repaired


def _with_default(tool: str, parameter: inspect.Parameter, annotation: Any) -> Any:
    if isinstance(parameter.default, FieldInfo):
        raise TypeError(
            f"tool {tool!r}: Field(…) of {parameter.name!r} stands where its default would; "
            "write Annotated[type, Field(…)], and the default behind it"
        )
    try:
        shown = {"default": plain(parameter.default)}
    except ToolResultError:
        shown = {}  # the function fills it in all the same; the model need not know the value
    return NotRequired[Annotated[annotation, Field(json_schema_extra=cast(Any, shown))]]


def _takes_none(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        return _takes_none(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in _UNIONS:
        return any(_takes_none(member) for member in typing.get_args(annotation))
    return annotation is type(None)


def _tidy(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    # Titles are derived from the names that stand beside them, `additionalProperties` is ours to check:
    # models do better without both.
    schema.pop("title", None)
    schema.pop("additionalProperties", None)
    schema.setdefault("properties", {})
    for name, declared in schema["properties"].items():
        declared.pop("title", None)
        if name in descriptions:
            declared.setdefault("description", descriptions[name])
    return schema


def _explain(error: ValidationError) -> str:
    problems = (
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(problems)
