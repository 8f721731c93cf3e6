"""`SessionWriter`: a session's stream as its one writer sees it, its events and its position."""

from collections.abc import Sequence
from dataclasses import replace

from intermission.events import Event
from intermission.keys import SessionKey
from intermission.sessions.records import EVENT, event_of, session_created
from intermission_storage import ConflictError, EventLog, Record

__all__ = ["SessionWriter"]


class SessionWriter:
    """Appends to one session's stream, and knows the events in it.

    The stream is read when it is first needed, and again after an append that failed: what is believed of
    it is then no longer to be trusted.
    """

    def __init__(self, key: SessionKey, log: EventLog) -> None:
        self._key = key
        self._log = log
        self._events: list[Event] | None = None  # None: not read
        self._position = 0

    def events(self) -> list[Event]:
        """Return the session's events, oldest first, as a list of the caller's own.

        Raises:
            StorageError: The log cannot be read.
        """
        return list(self._read())

    def refresh(self) -> None:
        """Believe what was read only as long as nobody else has appended to the stream.

        Raises:
            StorageError: The log cannot be read.
        """
        if self._events is not None and self._log.position(self._key.stream) != self._position:
            self._events = None

    def commit(self, records: Sequence[Record], *, time: float) -> list[Record]:
        """Append `records` in one transaction, and return them with their numbers.

        The record of the session's creation, stamped `time`, goes before the first ones.

        Raises:
            StorageError: Nothing was written.
        """
        self._read()
        created = [session_created(self._key, time)] if self._position == 0 else []
        try:
            last = self._log.append(self._key.stream, self._position, [*created, *records])
        except BaseException:
            self._events = None
            raise
        stored = [replace(record, seq=seq) for seq, record in enumerate(records, last - len(records) + 1)]
        self._fold(stored)
        return stored

    def commit_anyway(self, record: Record, *, time: float) -> Record:
        """Append one record that must be there even if another process has appended to the session meanwhile.

        Raises:
            StorageError: It was not written.
        """
        try:
            return self.commit([record], time=time)[0]
        except ConflictError:
            return self.commit([record], time=time)[0]

    def events_of(self, invocation_id: str) -> list[Event]:
        """Read the events of one run from the log; may be called from any thread.

        Raises:
            StorageError: The log cannot be read.
        """
        events = (event_of(record) for record in self._log.read(self._key.stream) if record.kind == EVENT)
        return [event for event in events if event.invocation_id == invocation_id]

    def _read(self) -> list[Event]:
        if self._events is None:
            self._events = []
            self._position = 0
            try:
                self._fold(self._log.read(self._key.stream))
            except BaseException:
                self._events = None
                raise
        return self._events

    def _fold(self, records: Sequence[Record]) -> None:
        assert self._events is not None
        for record in records:
            self._position = record.seq
            if record.kind == EVENT:
                self._events.append(event_of(record))
