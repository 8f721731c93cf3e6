"""Text without halves of characters. JSON escapes can split a character, and services cut between the halves.

Such a half, a lone surrogate, can be neither stored nor printed.
"""

__all__ = ["TextPieces", "whole_text"]


def whole_text(text: str) -> str:
    """Return `text` with halves that stand together as one character, and any other half as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class TextPieces:
    """Makes a text whole that arrives piece by piece: a first half is held back until the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Return what can be shown now that `piece` is there."""
        text = self._held + piece
        self._held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return whole_text(text.removesuffix(self._held))

    def end(self) -> str:
        """Return what is left when no piece follows. A second call returns `""`."""
        rest, self._held = whole_text(self._held), ""
        return rest
