"""What the answers of providers have in common: JSON to read, texts in pieces, and counts of tokens."""

import json
from typing import Any, cast

from intermission.content import Part
from intermission.errors import ModelError
from intermission.events import Usage
from intermission.models.failures import Failures
from intermission.models.whole_text import TextPieces

__all__ = ["Fields", "Said", "token_count", "usage_of"]

_MOST_TOKENS = 2**53  # beyond it not every reader of JSON keeps each digit, and no count is real


class Fields:
    """Reads the JSON texts of one answer, in which a value of another type than it must have is an error.

    Args:
        failures: Makes the errors.
        problem: What they say.

    Attributes:
        source: The text that was read last, which the errors show.
    """

    def __init__(self, failures: Failures, problem: str) -> None:
        self._failures = failures
        self._problem = problem
        self.source = ""

    def read(self, source: str) -> dict[str, Any]:
        """Return the object that a text is.

        Raises:
            ModelError: It is none, as for each of the next.
        """
        self.source = source
        try:
            value: object = json.loads(source)
        except ValueError as error:
            raise self.malformed() from error
        return self.mapping(value)

    def mapping(self, value: object) -> dict[str, Any]:
        """Return an object."""
        if not isinstance(value, dict):
            raise self.malformed()
        return cast("dict[str, Any]", value)

    def items(self, value: object) -> list[object]:
        """Return a list; an empty one if there is nothing."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.malformed()
        return cast("list[object]", value)

    def text(self, value: object) -> str:
        """Return a text; an empty one if there is nothing."""
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.malformed()
        return value

    def malformed(self) -> ModelError:
        """Return the error for a text that is no part of an answer."""
        return self._failures.malformed(self._problem, self.source)


class Said:
    """A text that comes in pieces, what the model says or what it thinks."""

    def __init__(self, *, thought: bool) -> None:
        self._thought = thought
        self._pieces = TextPieces()
        self._text: list[str] = []

    def add(self, piece: str) -> tuple[Part, ...]:
        """Return what can be shown now that `piece` is there; the first half of a character waits."""
        return self._parts(self._pieces.add(piece)) if piece else ()  # most chunks hold one of two texts

    def end(self) -> tuple[Part, ...]:
        """Return what is left when no piece follows. A second call returns nothing."""
        return self._parts(self._pieces.end())

    @property
    def text(self) -> str:
        """All that was shown."""
        return "".join(self._text)

    @property
    def whole(self) -> tuple[Part, ...]:
        """The same as a part, none if it is empty."""
        return (Part(text=self.text, thought=self._thought),) if self._text else ()

    def _parts(self, shown: str) -> tuple[Part, ...]:
        if not shown:
            return ()
        self._text.append(shown)
        return (Part(text=shown, thought=self._thought),)


def token_count(value: object) -> int | None:
    """Return what a service says of its tokens; `None` for a count that is none, as if not reported."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def usage_of(given: int | None, said: int | None, total: int | None = None) -> Usage | None:
    """Return the tokens of a prompt and of an answer, and of both if that was said; `None` for no count."""
    if given is said is total is None:
        return None
    known = (given or 0) + (said or 0)
    complete = given is not None and said is not None
    return Usage(given or 0, said or 0, known if total is None else total, complete)
