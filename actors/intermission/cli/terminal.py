"""`Screen`: labelled lines, coloured on a terminal and plain everywhere else."""

import io
import os
import sys
from typing import TextIO

__all__ = ["Screen", "forgive"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_LABEL_WIDTH = 8
# A model or a tool could move the cursor with them, or type for the person who reads.
_NO_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in b"\t\n\r"}


def forgive(stream: TextIO, errors: str) -> None:
    """Let a stream handle what its encoding does not have as `errors` says, if it is one that can."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=errors)


class Screen:
    """Writes to a stream, with colours if it is a terminal that wants them (`NO_COLOR` says no)."""

    def __init__(self, out: TextIO | None = None) -> None:
        out = sys.stdout if out is None else out
        # A program may be started with its output closed; there is then nobody to tell.
        self._out: TextIO = io.StringIO() if out is None else out  # pyright: ignore[reportUnnecessaryComparison] - see above
        # What a model says need not have a form in the encoding that the terminal is set to.
        forgive(self._out, "backslashreplace")
        self.is_terminal = self._out.isatty()
        self._coloured = (
            self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def line(self, label: str, text: str = "", style: str = "") -> None:
        """Write one line behind a label."""
        self.start(label, style)
        self.piece(text)
        self.end()

    def note(self, text: str) -> None:
        """Write one line of small print."""
        self._write(f"{'':{_LABEL_WIDTH}}{self._styled(text, 'dim')}\n")

    def heading(self, text: str) -> None:
        """Write a heading, with an empty line before it."""
        self._write(f"\n{self._styled(text, 'bold')}\n")

    def start(self, label: str, style: str = "") -> None:
        """Begin a line that comes in pieces."""
        self._write(self._styled(f"{label:{_LABEL_WIDTH}}", style))

    def piece(self, text: str) -> None:
        """Write a piece of the line, at once. A terminal is not given the control characters in it."""
        self._write(text.translate(_NO_CONTROLS) if self.is_terminal else text)

    def end(self) -> None:
        """End the line."""
        self._write("\n")

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._coloured and style else text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
