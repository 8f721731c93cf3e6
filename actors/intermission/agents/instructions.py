"""Instructions: texts with fields that the session's state fills, or functions that write them."""

import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeAlias

from intermission.agents.base import AgentContext
from intermission.agents.effects import Call, Effect
from intermission.errors import InstructionError
from intermission.state import APP, TEMP, USER

__all__ = ["Instruction", "Provider", "fill", "is_fixed", "write"]

Provider: TypeAlias = Callable[[AgentContext], str | Awaitable[str]]
"""Writes an instruction: a function of the agent's context, plain or async. It may block."""

Instruction: TypeAlias = str | Provider
"""A text, whose fields in braces are filled from the state, or a function, whose text is taken as it is."""

# In doubled braces nothing is a field: templates of other kinds look like that.
_FIELD = re.compile(r"(?<!\{)\{\s*(?P<prefix>[a-z]+:)?(?P<name>\w+)(?P<optional>\?)?\s*\}(?!\})")
_PREFIXES = (APP, USER, TEMP, None)


def is_fixed(instruction: Instruction) -> bool:
    """Return whether an instruction is a text without fields."""
    return isinstance(instruction, str) and "{" not in instruction


def write(instruction: Instruction, agent: str, context: AgentContext) -> Generator[Effect, Any, str]:
    """Return an instruction's text.

    Raises:
        InstructionError: A field names a key that the state does not have.
        TypeError: A function returned something else than a text.
    """
    if isinstance(instruction, str):
        return fill(instruction, agent, context.state)
    text = yield Call(instruction, context)
    if not isinstance(text, str):
        raise TypeError(
            f"the instruction function of agent {agent!r} must return a str, not {type(text).__name__}"
        )
    return text


def fill(text: str, agent: str, state: Mapping[str, Any]) -> str:
    """Replace `{key}` by the state's value, and `{key?}` by nothing if there is none.

    What is in braces and no key stays as it is.

    Raises:
        InstructionError: The state has no such key.
    """

    def value(field: re.Match[str]) -> str:
        prefix, name = field["prefix"], field["name"]
        if prefix not in _PREFIXES or not name.isidentifier():
            return field[0]
        key = (prefix or "") + name
        found = state.get(key)
        if found is None:
            if not field["optional"]:
                raise InstructionError(agent, key)
            return ""
        return str(found)

    return _FIELD.sub(value, text) if "{" in text else text
