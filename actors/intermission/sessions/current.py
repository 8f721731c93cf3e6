"""`CurrentRun`: the run that a session has under way, as the session sees it."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from intermission.events import Event, Usage
from intermission.kernel.ref import ActorRef
from intermission.runs.environment import Environment
from intermission.runs.event_hooks import EventGate
from intermission.runs.lifecycle import Lifecycle
from intermission_storage import Appended, Kind, Record, StorageError

__all__ = ["CurrentRun", "Phase"]

_leaving = threading.Lock()  # one for all: it is held for two assignments

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
        usage: The tokens of its events.
        open_calls: Ids of the calls that have begun and not ended.
        attempts: How often its beginning was refused because somebody else had been there before.
        outcome: What the log has said of its beginning; `None` while it is with the log.
        heir: See `leave_to`.
        environment: What its strands share, when it has an agent.
        gate: Where plugins look at its events before they are shown, if any do.
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

    def take_in(self, records: Iterable[Record], event: Event | None) -> None:
        """Keep what its stored records say."""
        for record in records:
            if record.kind == _CALL_STARTED:
                self.open_calls[record.data["callId"]] = record.data["tool"]
            elif record.kind == _CALL_FINISHED:
                self.open_calls.pop(record.data["callId"], None)
        if event is not None and event.is_final and event.text:
            self.text = event.text
