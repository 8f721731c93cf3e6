"""`CurrentRun`: the run that a session has under way, as the session sees it."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from intermission.agents.continuation import Continuation
from intermission.events import Event, Usage
from intermission.kernel.ref import ActorRef
from intermission.keys import SessionKey
from intermission.pending import PendingCall
from intermission.runs.environment import Environment
from intermission.runs.event_hooks import EventGate
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import Item
from intermission.runs.result import COUNTED, RunStatus, Verdict
from intermission.sessions.pauses import Pauses
from intermission.sessions.records import pending_entry
from intermission_storage import Appended, IndexEntry, Kind, Record, StorageError

__all__ = ["CurrentRun", "Phase"]

_leaving = threading.Lock()  # one for all: it is held for two assignments

_NO_TOKENS = Usage()
_CALL_STARTED, _CALL_FINISHED = Kind.CALL_STARTED, Kind.CALL_FINISHED  # to look a member up is slow


class Phase(Enum):
    """How far the run is."""

    LOADING = auto()
    """Nothing of it is written: the session is being read, or the end before it is being stored."""
    CLAIMING = auto()
    """Its beginning is with the log."""
    RUNNING = auto()
    """Its beginning is durable."""
    ENDING = auto()
    """Its end is with the log."""


@dataclass(eq=False, slots=True)
class CurrentRun:
    """The run under way.

    Attributes:
        run: The run.
        phase: How far it is.
        began: When, by the runner's clock.
        token: Its claim.
        agent: Its actor.
        text: The text of its last final event.
        usage: The tokens of its events, those from before it was gone on with included.
        open_calls: Ids of the calls that have begun and not ended.
        attempts: How often its beginning was refused because somebody else had been there before.
        outcome: What the log has said of its beginning; `None` while it is with the log.
        heir: See `leave_to`.
        environment: What its strands share, when it has an agent.
        gate: Where plugins look at its events before they are shown, if any do.
        agent_name: The agent that it begins with; `None` for the root.
        pauses: Which of its calls wait for an answer, if the app's runs pause.
        opened_later: Whether its user event comes after its beginning, for plugins are to see it before.
        indexed: The calls of which the log's index knows, or will, that they wait.
        continuation: Where it goes on, if its message answers a call in an app without checkpoints.
        fresh: Whether the session was read from the log for it.
        waited_since: Since when another process keeps its beginning from the log; `None` if none does.
    """

    run: Lifecycle
    phase: Phase = Phase.LOADING
    began: float = 0.0
    token: int | None = None
    agent: ActorRef[Any] | None = None
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    attempts: int = 0
    outcome: Appended | StorageError | None = None
    heir: Callable[[Appended | StorageError], None] | None = None
    environment: Environment | None = None
    gate: EventGate | None = None
    agent_name: str | None = None
    pauses: Pauses | None = None
    continuation: Continuation | None = None
    fresh: bool = False
    waited_since: float | None = None
    opened_later: bool = False
    indexed: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])

    def pause_with(self, pauses: Pauses, *, indexed: bool) -> None:
        """Keep which calls wait for an answer, and whether the log's index has them."""
        self.pauses = pauses
        self.indexed = dict(pauses.calls) if indexed else {}

    def waits(self, items: Iterable[Item]) -> bool:
        """Return whether a call waits for an answer when something more is stored."""
        if self.pauses is None:
            return False
        self.pauses.take_in(items)
        return bool(self.pauses.calls)

    def reindex(
        self, key: SessionKey, items: Iterable[Item], verdict: Verdict | None = None
    ) -> tuple[list[IndexEntry], list[IndexEntry]]:
        """Take in what is to be stored; return which index entries of waiting calls come and go with it."""
        if self.pauses is None:
            return [], []
        self.pauses.take_in(items)
        over = verdict is not None and verdict.status not in {RunStatus.PAUSED, RunStatus.INTERRUPTED}
        calls = {} if over else dict(self.pauses.calls)
        before, self.indexed = self.indexed, calls
        put = [pending_entry(key, call) for name, call in calls.items() if name not in before]
        drop = [pending_entry(key, call) for name, call in before.items() if name not in calls]
        return put, drop

    def begun(self, outcome: Appended | StorageError) -> None:
        """The log says what came of the beginning, to whoever the run was left to, too."""
        with _leaving:
            self.outcome, heir = outcome, self.heir
        if heir is not None:
            heir(outcome)

    def leave_to(self, heir: Callable[[Appended | StorageError], None]) -> None:
        """The session's actor is gone: tell `heir` what comes of the beginning, now or when it is known."""
        with _leaving:
            self.heir, outcome = heir, self.outcome
        if outcome is not None:
            heir(outcome)

    def take_in(self, records: Iterable[Record], events: Sequence[Event] = ()) -> None:
        """Keep what its stored records say."""
        for record in records:
            if record.kind == _CALL_STARTED:
                self.open_calls[record.data["callId"]] = record.data["tool"]
            elif record.kind == _CALL_FINISHED:
                self.open_calls.pop(record.data["callId"], None)
        for event in events:
            if event.is_final and event.author != "user" and event.text:
                self.text = event.text

    def go_on_from(self, events: Iterable[Event], invocation_id: str, status: str | None) -> None:
        """Keep what a run has said and used that is gone on with. It ended so before, or its process died."""
        self.usage = Usage(complete=status in COUNTED)
        before = [event for event in events if event.invocation_id == invocation_id]
        self.take_in((), before)
        for event in before:
            self.usage += event.usage or _NO_TOKENS
