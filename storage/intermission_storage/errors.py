"""Every error that an event log raises.

StorageError
├── ClaimedError         somebody who lives holds the stream
├── ConflictError        the stream does not end where the writer expects it
├── EncodingError        a value would not come back equal (also a TypeError)
├── LogBusyError         another process has the turn to write for too long
├── LogClosedError       the log was closed before the call
├── LogCorruptError      the file is not an event log, or is damaged
├── LogForkedError       the log was opened before the process forked
├── LogFullError         no room for the records
├── LogReadOnlyError     the log cannot be written here
├── LogVersionError      a newer version of this library wrote the log
└── StaleClaimError      the claim under which the append was made has been lost
"""

import os
from typing import Any

from intermission_storage.record import Owner

__all__ = [
    "ClaimedError",
    "ConflictError",
    "EncodingError",
    "LogBusyError",
    "LogClosedError",
    "LogCorruptError",
    "LogForkedError",
    "LogFullError",
    "LogReadOnlyError",
    "LogVersionError",
    "StaleClaimError",
    "StorageError",
]


class StorageError(Exception):
    """Root of the errors of an event log. What was committed before it is still in the log.

    They can be pickled, as the pools of processes do.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # That of exceptions calls the class with the text, which is not what it is made of.
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type["StorageError"], args: tuple[Any, ...]) -> "StorageError":
    return kind.__new__(kind, *args)


class ClaimedError(StorageError):
    """Another owner holds the stream, and lives. Nothing was written.

    Wait until it lets go, or take the stream over on purpose (`take_over`), which fences it off.
    """

    def __init__(self, stream: str, owner: Owner) -> None:
        super().__init__(f"stream {stream!r} is claimed by {owner}, which lives. Nothing was written.")
        self.stream = stream
        self.owner = owner


class ConflictError(StorageError):
    """The stream is not as the writer expects it: somebody else has appended to it, or has made it anew.

    Nothing of the refused batch was written. Read the stream again and decide anew.

    Attributes:
        stream: Its name.
        expected: The number of the last record that the writer knows of.
        actual: The number of the last record.
        lacking: The index and the key of an entry that the batch needs, if that is what differs.
    """

    def __init__(
        self,
        stream: str,
        *,
        expected: int | None,
        actual: int,
        lacking: tuple[str, tuple[str, ...]] | None = None,
    ) -> None:
        if lacking is None:
            what = f"is at {actual}, not at {expected}: another writer has appended to it"
        else:
            what = f"has not the entry {lacking[1]!r} of index {lacking[0]!r} that its writer knows of"
        super().__init__(
            f"stream {stream!r} {what}. Nothing was written; read the stream again before the next append."
        )
        self.stream = stream
        self.expected = expected
        self.actual = actual
        self.lacking = lacking


class EncodingError(StorageError, TypeError):
    """A value in a record would not come back equal from the log, so the append was refused.

    `path` says where the value stands, for example `data.response.items[2]`.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} {problem}. Records hold None, bool, int of 64 bits, float, str, bytes, "
            "and lists and string-keyed dicts of these. Nothing was written."
        )
        self.path = path


class LogBusyError(StorageError):
    """Another process has the turn to write for too long: it was stopped, or hangs, inside a commit.

    Nothing was written, and the same append may be tried again. Reading still works.

    Attributes:
        pid: That process, as it knows itself; `None` if that could not be told.
    """

    def __init__(self, path: os.PathLike[str], *, seconds: float, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{who} has kept the turn to write {os.fspath(path)} for {seconds:g} s, and was probably stopped "
            "inside a commit. Let it go on (kill -CONT) or end it (kill -KILL), then try again. Nothing was "
            "written."
        )
        self.pid = pid


class LogClosedError(StorageError):
    """The log was closed before the call; nothing was written or read."""


class LogCorruptError(StorageError):
    """The file is no event log of ours, or it is damaged. Nothing was changed in it."""


class LogForkedError(StorageError):
    """The log was opened before this process was forked, and belongs to the parent. Nothing was done.

    Open logs after forking, or start child processes with the `spawn` method.
    """


class LogFullError(StorageError):
    """The log or its disk has no room for the records. Nothing of the batch was written; reads still work."""


class LogReadOnlyError(StorageError):
    """The log cannot be written: its directory does not allow it, or it was opened with `read_only`."""


class LogVersionError(StorageError):
    """A newer version of this library wrote the log or record; upgrade to read it. Nothing was changed."""


class StaleClaimError(StorageError):
    """The claim under which the append was made is gone: released, taken over, or deleted with its stream.

    Nothing was written. Whoever gets this has been fenced off, and must not go on with what it did.
    """

    def __init__(self, stream: str, *, token: int, current: int | None) -> None:
        since = "nobody holds it now" if current is None else f"it is held under {current} now"
        super().__init__(
            f"stream {stream!r} is no longer held under claim {token}: {since}. Nothing was written."
        )
        self.stream = stream
        self.token = token
        self.current = current
