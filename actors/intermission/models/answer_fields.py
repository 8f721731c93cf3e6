"""What the answers of all providers have in common: texts that come in pieces, and counts of tokens."""

from intermission.content import Part
from intermission.models.whole_text import TextPieces

__all__ = ["Said", "token_count"]

_MOST_TOKENS = 2**53  # beyond it not every reader of JSON keeps each digit, and no count is real


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
