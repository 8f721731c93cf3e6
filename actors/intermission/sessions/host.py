"""`Host`: what a session's actor needs of its runner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from intermission.agents.app import App
from intermission.kernel.ref import ActorRef
from intermission.kernel.topics import Topics
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.services import Services
from intermission.sessions.holds import Holds
from intermission.sessions.notices import Notices
from intermission.sessions.shared_state import SharedState
from intermission_storage import EventLog

__all__ = ["Host", "Registry"]


class Registry(Protocol):
    """The directory, as a session sees it.

    Attributes:
        holds: Which sessions wait for what their last run has left behind.
    """

    holds: Holds

    def left_queue(self, run: Lifecycle) -> None:
        """A run waits in its session no more."""
        ...

    def forget(self, run: Lifecycle) -> None:
        """A run has ended."""
        ...

    def idle(self, key: SessionKey, events: int) -> None:
        """The session has nothing to do, and holds so many events."""
        ...

    def lost(self, key: SessionKey, ref: ActorRef[Any]) -> None:
        """The session's actor has stopped; what it has not seen yet is for another one."""
        ...

    def leave(self, key: SessionKey, *, unless: Callable[[], bool]) -> bool:
        """Take the session out, unless a condition holds at that moment; return whether it is out."""
        ...


@dataclass(frozen=True, slots=True)
class Host:
    """What a session's actor needs of its runner.

    Attributes:
        app: What is run.
        log: Where everything is kept.
        services: What the runs share.
        registry: The directory.
        topics: The subscribers of the actor system, who are told what happens.
        shared: The state of the app and of its users.
        notices: Tells plugins what nobody waits for.
        auto_create: Whether a run creates its session if that is missing.
    """

    app: App
    log: EventLog
    services: Services
    registry: Registry
    topics: Topics
    shared: SharedState
    notices: Notices
    auto_create: bool = True
