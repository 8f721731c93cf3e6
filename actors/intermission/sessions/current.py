"""`CurrentRun`: the run that a session has under way, as the session sees it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from intermission.events import Event, Usage
from intermission.kernel.ref import ActorRef
from intermission.runs.environment import Environment
from intermission.runs.event_hooks import EventGate
from intermission.runs.lifecycle import Lifecycle
from intermission_storage import Kind, Record

__all__ = ["CurrentRun", "Phase"]

_CALL_STARTED, _CALL_FINISHED = Kind.CALL_STARTED, Kind.CALL_FINISHED  # to look a member up is slow


class Phase(Enum):
    """How far the run is."""

    LOADING = auto()
    """Nothing of it is written: the session is being read, or the end before it is being stored."""
    CLAIMING = auto()
    """Its beginning is with the log."""
    RELOADING = auto()
    """Its beginning is durable, and the session, which is another one than thought, is being read."""
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
        attempts: How often its beginning was refused because somebody else had appended.
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
    environment: Environment | None = None
    gate: EventGate | None = None

    def take_in(self, records: Iterable[Record], event: Event | None) -> None:
        """Keep what its stored records say."""
        for record in records:
            if record.kind == _CALL_STARTED:
                self.open_calls[record.data["callId"]] = record.data["tool"]
            elif record.kind == _CALL_FINISHED:
                self.open_calls.pop(record.data["callId"], None)
        if event is not None and event.is_final and event.text:
            self.text = event.text
