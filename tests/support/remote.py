"""`RemoteLog`: an event log that another process has open, for tests of two processes at one log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from children import Child

__all__ = ["RemoteError", "RemoteLog"]


class RemoteError(Exception):
    """What the log raised over there: the name of its class, and its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class RemoteLog(Child):
    """A child process with an open log; `tests/storage/children/remote.py` does what it is told.

    Args:
        path: The log's directory.
        before: See `Child`.
        options: Keywords of `LmdbEventLog`.
    """

    def __init__(self, path: Path, *, before: Sequence[str] = (), **options: Any) -> None:
        super().__init__("remote", before=before)
        try:
            self.result("open", str(path), **options)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def append(self, stream: str, text: str, **options: Any) -> tuple[int, int | None]:
        """Append one record, with the text as its data, and return its number and the claim's token."""
        position, token = self.result("append", stream, text, **options)
        return position, token

    def texts(self, stream: str) -> list[str]:
        """Return the texts of a stream."""
        return cast("list[str]", self.result("texts", stream))

    def delete(self, stream: str) -> bool:
        """Delete a stream."""
        return bool(self.result("delete", stream))

    def close(self) -> None:
        """Close the log; the process goes on."""
        self.result("close")

    def result(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Have a command done, and return its result.

        Raises:
            RemoteError: It raised something over there.
        """
        return self.later(name, *arguments, **options)()

    def later(self, name: str, *arguments: Any, **options: Any) -> "Result":
        """Have a command begun, and return what waits for its result."""
        self.tell([name, arguments, options])
        return Result(self)


class Result:
    """What a command will come to: call it to wait for that."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def __call__(self) -> Any:
        """Return the result, or raise the `RemoteError`."""
        answer = self._child.hear()
        if "error" in answer:
            raise RemoteError(*answer["error"])
        return answer["result"]
