"""`WatchedLog`: a memory log whose appends a test can hold or refuse, by the kind of their records."""

from collections.abc import Sequence
from typing import Any

from intermission.testing import Gate
from intermission_storage import Appended, MemoryEventLog, Record

__all__ = ["WatchedLog"]


class WatchedLog(MemoryEventLog):
    """Looks at each append before it happens.

    `hold(kind)` returns a gate at which the next append with such a record stops; `refuse(kind, error)`
    raises at the next one. Both look at the last record of the batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._gates: dict[str, Gate] = {}
        self._errors: dict[str, BaseException] = {}

    def hold(self, kind: str) -> Gate:
        """Return a gate for the next append whose last record is of this kind."""
        self._gates[kind] = Gate()
        return self._gates[kind]

    def refuse(self, kind: str, error: BaseException) -> None:
        """Raise `error` instead of the next append whose last record is of this kind."""
        self._errors[kind] = error

    def append(self, stream: str, records: Sequence[Record], **batch: Any) -> Appended:
        """See `EventLog.append`."""
        kind = records[-1].kind
        gate, error = self._gates.pop(kind, None), self._errors.pop(kind, None)
        if gate is not None:
            gate.wait()
        if error is not None:
            raise error
        return super().append(stream, records, **batch)
