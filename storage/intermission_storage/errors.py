"""Every error that an event log raises.

StorageError
├── ConflictError        another writer moved the stream on
├── EncodingError        a value would not come back equal (also a TypeError)
├── LogClosedError       the log was closed before the call
├── LogCorruptError      the file is not an event log, or is damaged
├── LogFullError         no room for the records
└── LogVersionError      a newer version of this library wrote the log
"""

__all__ = [
    "ConflictError",
    "EncodingError",
    "LogClosedError",
    "LogCorruptError",
    "LogFullError",
    "LogVersionError",
    "StorageError",
]


class StorageError(Exception):
    """Root of the errors of an event log. What was committed before it is still in the log."""


class ConflictError(StorageError):
    """The stream is not where the writer expects it: somebody else has appended to it.

    Nothing of the refused batch was written. Read the stream again and decide anew.
    """

    def __init__(self, stream: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"stream {stream!r} is at {actual}, not at {expected}: another writer has appended to it. "
            "Nothing was written; read the stream again before the next append."
        )
        self.stream = stream
        self.expected = expected
        self.actual = actual


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


class LogClosedError(StorageError):
    """The log was closed before the call; nothing was written or read."""


class LogCorruptError(StorageError):
    """The file is no event log of ours, or it is damaged. Nothing was changed in it."""


class LogFullError(StorageError):
    """The log or its disk has no room for the records. Nothing of the batch was written; reads still work."""


class LogVersionError(StorageError):
    """A newer version of this library wrote the log or record; upgrade to read it. Nothing was changed."""
