"""`SessionView`: a session as its records make it. Pure: records in, events and state out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intermission.agents.outcomes import CallOutcome
from intermission.agents.progress import Making
from intermission.events import Event
from intermission.state import Operation, apply_change, own_change
from intermission_storage import EventLog, Kind, Record

__all__ = ["SessionView"]

# To look a member of an enumeration up is slow.
_EVENT, _STATE_SET, _SESSION_CREATED = Kind.EVENT, Kind.STATE_SET, Kind.SESSION_CREATED
_CALL_STARTED, _CALL_FINISHED = Kind.CALL_STARTED, Kind.CALL_FINISHED
_RUN_STARTED, _RUN_ENDED = Kind.RUN_STARTED, Kind.RUN_ENDED


class SessionView:
    """What a session's records come to.

    Attributes:
        position: The number of the last record.
        left: Of the unfinished runs those that have no end, or were released, and behind which no new one has
            begun: `recover` goes on with them.
        identity: What tells the session from another one that was made anew under its name; `None` before
            its first record.
        events: Its events, oldest first.
        outcomes: What is known of the calls that began and that no event answers; see `AgentContext`.
        makings: When those calls were made last, and what they have left, by their ids.
        unfinished: The last beginnings of the runs that have not completed, with `status` for those that
            have an end, by their ids.
        state: Its state, without what belongs to the app or the user.
        created: When it was created, in seconds since the epoch.
        updated: When its last record was made.
    """

    __slots__ = (
        "created",
        "events",
        "identity",
        "left",
        "makings",
        "outcomes",
        "position",
        "state",
        "unfinished",
        "updated",
    )

    def __init__(self) -> None:
        self.position = 0
        self.identity: Any = None
        self.events: list[Event] = []
        self.outcomes: dict[str, CallOutcome] = {}
        self.makings: dict[str, Making] = {}
        self.left: set[str] = set()
        self.unfinished: dict[str, Mapping[str, Any]] = {}
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
        return self._fold(((record, record.seq) for record in records), known)

    def take_in(self, records: Sequence[Record], position: int, known: Event | None = None) -> list[Event]:
        """As `fold`, for records that a commit has just brought, of which the last has that number."""
        numbered = zip(records, range(position - len(records) + 1, position + 1), strict=True)
        return self._fold(numbered, known if known is not None and known.is_plain else None)

    def _fold(self, records: Iterable[tuple[Record, int]], known: Event | None) -> list[Event]:
        events: list[Event] = []
        for record, seq in records:
            kind, data = record.kind, record.data
            self.position = seq
            self.updated = data.get("timestamp", self.updated)
            if kind == _EVENT:
                event = Event.stored(data, seq) if known is None else known.stored_as(seq)
                events.append(event)
                if self.outcomes:
                    for response in event.function_responses:
                        if event.author == "user" or self.outcomes.get(response.id) != "pending":
                            self.outcomes.pop(response.id, None)
                            self._answered(response.id, by_user=event.author == "user")
                actions = event.actions
                if actions.state_delta or actions.state_operations:
                    apply_change(self.state, *own_change(actions.state_delta, actions.state_operations))
            elif kind == _STATE_SET:
                operations = tuple(map(Operation.from_dict, data.get("operations", ())))
                apply_change(self.state, *own_change(data["delta"], operations))
            elif kind == _CALL_STARTED:
                self.outcomes[data["callId"]] = "unknown"
                self.makings[data["callId"]] = Making(seq)
            elif kind == _CALL_FINISHED:
                given = data.get("response")
                self.outcomes[data["callId"]] = data["outcome"] if given is None else given
                made = self.makings.get(data["callId"])
                if made is not None and (made.left is not None or "actions" in data):
                    self.makings[data["callId"]] = Making(made.since, data.get("actions"))
            elif kind == _RUN_STARTED:
                if data["invocationId"] not in self.unfinished:
                    self.left.clear()
                self.left.add(data["invocationId"])
                self.unfinished[data["invocationId"]] = data
            elif kind == _RUN_ENDED:
                begun = self.unfinished.pop(data["invocationId"], None)
                if data["status"] != "interrupted":
                    self.left.discard(data["invocationId"])
                if begun is not None and data["status"] != "completed":
                    self.unfinished[data["invocationId"]] = {**begun, "status": data["status"]}
            elif kind == _SESSION_CREATED:
                self.identity = data["id"]
                self.created = data["timestamp"]
                apply_change(self.state, *own_change(data.get("state", {}), ()))
        self.events += events
        return events

    def _answered(self, call_id: str, *, by_user: bool) -> None:
        made = self.makings.get(call_id)
        if made is not None and not (by_user and made.left is not None):
            del self.makings[call_id]  # else its answer was there before what it has left was stored
