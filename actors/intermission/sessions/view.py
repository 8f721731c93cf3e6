"""`SessionView`: a session as its records make it. Pure: records in, events and state out."""

from collections.abc import Iterable, Sequence
from typing import Any

from intermission.events import Event
from intermission.sessions.records import event_of
from intermission.state import Operation, apply_change, own_change
from intermission_storage import EventLog, Kind, Record

__all__ = ["SessionView"]


class SessionView:
    """What a session's records come to.

    Attributes:
        position: The number of the last record.
        identity: What tells the session from another one that was made anew under its name; `None` before
            its first record.
        events: Its events, oldest first.
        state: Its state, without what belongs to the app or the user.
        created: When it was created, in seconds since the epoch.
        updated: When its last record was made.
    """

    __slots__ = ("created", "events", "identity", "position", "state", "updated")

    def __init__(self) -> None:
        self.position = 0
        self.identity: Any = None
        self.events: list[Event] = []
        self.state: dict[str, Any] = {}
        self.created = 0.0
        self.updated = 0.0

    @classmethod
    def load(cls, log: EventLog, stream: str) -> "SessionView":
        """Read a session from its log.

        Raises:
            StorageError: The log cannot be read.
        """
        view = cls()
        view.fold(log.read(stream))
        return view

    def fold(self, records: Iterable[Record], known: Event | None = None) -> list[Event]:
        """Take further records in, and return the events among them.

        Args:
            records: The records, with their numbers.
            known: The event that the only event record among them holds, if nobody can change its values.
        """
        events: list[Event] = []
        for record in records:
            self.position = record.seq
            self.updated = record.data.get("timestamp", self.updated)
            if record.kind == Kind.EVENT:
                event = event_of(record) if known is None else known.stored_as(record.seq)
                events.append(event)
                actions = event.actions
                if actions.state_delta or actions.state_operations:
                    apply_change(self.state, *own_change(actions.state_delta, actions.state_operations))
            elif record.kind == Kind.STATE_SET:
                operations = tuple(map(Operation.from_dict, record.data.get("operations", ())))
                apply_change(self.state, *own_change(record.data["delta"], operations))
            elif record.kind == Kind.SESSION_CREATED:
                self.identity = record.data["id"]
                self.created = record.data["timestamp"]
                apply_change(self.state, *own_change(record.data.get("state", {}), ()))
        self.events += events
        return events

    def take_in(self, records: Sequence[Record], position: int, known: Event | None = None) -> list[Event]:
        """As `fold`, for records that a commit has just brought, of which the last has that number."""
        first = position - len(records) + 1
        numbered = (Record(record.kind, record.data, seq) for seq, record in enumerate(records, first))
        return self.fold(numbered, known if known is not None and known.is_plain else None)
