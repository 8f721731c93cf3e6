"""`SessionWriter`: a session's stream as its one writer sees it: its claim, its position, its events."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from intermission.errors import SessionBusyError
from intermission.events import Event
from intermission.keys import SessionKey
from intermission.sessions.records import event_of, open_run, session_created, session_entry
from intermission_storage import ClaimedError, EventLog, Kind, Record, StaleClaimError

__all__ = ["SessionWriter"]


class SessionWriter:
    """Appends to one session's stream, each run under a claim of its own.

    A run claims the session with its first records and gives it up with its last, each in their commit, so
    that of several processes one has the session at a time. The stream is read when it is first needed,
    when somebody else has appended to it, and after an append that failed.
    """

    def __init__(self, key: SessionKey, log: EventLog) -> None:
        self._key = key
        self._log = log
        self._events: list[Event] | None = None  # None: not read
        self._position = 0
        self._first: list[Record] = []
        self._token: int | None = None
        self._invocation_id = ""
        self._owed: Record | None = None

    def events(self) -> list[Event]:
        """Return the session's events, oldest first, as a list of the caller's own.

        Raises:
            StorageError: The log cannot be read.
        """
        return list(self._read())

    def begin(self, invocation_id: str, records: Sequence[Record], *, time: float) -> None:
        """Claim the session with a run's first records; a new session is created with them.

        If the end of the run before could not be stored, it is stored first.

        Args:
            invocation_id: The run.
            records: Its beginning.
            time: What the record of the session's creation is stamped with.

        Raises:
            SessionBusyError: Another owner has the session. Nothing was written.
            StorageError: Nothing was written.
        """
        if self._owed is not None:
            # One that was taken over owes no more.
            with contextlib.suppress(StaleClaimError):
                self.end(self._owed)
        if self._events is not None and not self._is_true():
            self._events = None
        self._read()
        entries = [open_run(self._key, invocation_id)]
        if self._position == 0:
            records = [session_created(self._key, time), *records]
            entries.append(session_entry(self._key))
        try:
            self._append(records, claim=True, put=entries)
        except ClaimedError as error:
            raise SessionBusyError(error.owner) from error
        self._invocation_id = invocation_id

    def append(self, record: Record) -> Record:
        """Append a record of the run that has the session, and return it with its number.

        Raises:
            StaleClaimError: Somebody has taken the session over. Nothing was written.
            StorageError: Nothing was written.
        """
        return self._append([record], token=self._token)[0]

    def end(self, record: Record) -> Record:
        """Append a run's last record and give the session up.

        If it cannot be stored, the session stays claimed, and the next `begin` tries it again.

        Raises:
            StaleClaimError: Somebody has taken the session over. Nothing was written.
            StorageError: Nothing was written.
        """
        self._owed = record
        dropped = [open_run(self._key, self._invocation_id)]
        try:
            return self._append([record], token=self._token, release=True, drop=dropped)[0]
        finally:
            if self._token is None:
                self._owed = None

    def owe(self, record: Record) -> None:
        """Store this as the end of the run, as soon as that is possible, if it still has the session."""
        if self._token is not None:
            self._owed = record

    def events_of(self, invocation_id: str) -> list[Event]:
        """Read the events of one run from the log; may be called from any thread.

        Raises:
            StorageError: The log cannot be read.
        """
        records = self._log.read(self._key.stream)
        events = (event_of(record) for record in records if record.kind == Kind.EVENT)
        return [event for event in events if event.invocation_id == invocation_id]

    def _is_true(self) -> bool:
        # The first record tells a session from another that was made anew under its name, and is as long.
        stream = self._key.stream
        return (
            self._log.head(stream).position == self._position
            and self._log.read(stream, limit=1) == self._first
        )

    def _append(self, records: Sequence[Record], **batch: Any) -> list[Record]:
        self._read()
        try:
            appended = self._log.append(self._key.stream, records, expected=self._position, **batch)
        except StaleClaimError:
            self._events, self._token = None, None
            raise
        except BaseException:
            self._events = None
            raise
        self._token = appended.token
        first = appended.position - len(records) + 1
        stored = [replace(record, seq=seq) for seq, record in enumerate(records, first)]
        self._fold(stored)
        return stored

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
        if self._position == 0:
            self._first = list(records[:1])
        for record in records:
            self._position = record.seq
            if record.kind == Kind.EVENT:
                self._events.append(event_of(record))
