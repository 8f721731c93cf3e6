"""`Schema`: what the input or the output of an agent must look like."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeAlias, cast

__all__ = ["Schema", "SchemaSource"]

SchemaSource: TypeAlias = Any
"""A type that pydantic knows, such as a model, a dataclass or `list[str]`; or a JSON schema as a mapping."""


class Schema:
    """A shape of values.

    A JSON schema that is given as a mapping is for the model: what comes back is read as JSON, and not
    compared with it. A type is checked.

    Args:
        source: The type, or the JSON schema.
        what: What it is for, for messages.

    Raises:
        TypeError: It is neither.

    Attributes:
        json: The JSON schema.
    """

    def __init__(self, source: SchemaSource, what: str) -> None:
        # Only a program that has schemas pays for pydantic.
        import pydantic

        self._adapter: pydantic.TypeAdapter[Any] | None = None
        self._pydantic: ModuleType = pydantic
        if isinstance(source, Mapping):
            self.json: Mapping[str, Any] = dict(cast("Mapping[str, Any]", source))
            return
        try:
            self._adapter = pydantic.TypeAdapter(source)
            self.json = self._adapter.json_schema()
        except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticUserError) as error:
            raise TypeError(
                f"{what} {source!r} is no type that has a JSON schema: {error.message}"
            ) from error

    def read(self, text: str) -> Any:
        """Return the plain value of a text that is JSON; a fence of Markdown around it is allowed.

        Raises:
            ValueError: It is no JSON, or does not fit. The message holds nothing of the text.
        """
        from pydantic_core import from_json

        try:
            value = from_json(_unfenced(text))
        except ValueError:
            raise ValueError("it is no JSON") from None
        return self.check(value)

    def check(self, value: Any) -> Any:
        """Return a value as plain as it came, converted to the type.

        Raises:
            ValueError: It does not fit. The message holds nothing of the value.
        """
        if self._adapter is None:
            return value
        try:
            return self._adapter.dump_python(self._adapter.validate_python(value), mode="json")
        except self._pydantic.ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            raise ValueError("; ".join(map(_problem, problems))) from None


def _problem(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in problem["loc"])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])


def _unfenced(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") : -3]
    return stripped
