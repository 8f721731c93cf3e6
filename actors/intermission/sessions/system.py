"""`SessionSystem`: a runner's actors, with the sessions among them."""

from collections.abc import Callable
from typing import Any

from intermission.errors import SessionClosedError
from intermission.kernel.dispatcher import Dispatcher
from intermission.kernel.ref import ActorRef
from intermission.kernel.system import ActorSystem
from intermission.kernel.topics import Topics
from intermission.messages import PoisonPill, StartRun, Stop
from intermission.runs.run import Run

__all__ = ["SessionRef", "SessionSystem", "Sessioned"]


class SessionRef:
    """A session by its key. It outlives the session's actor, which comes and goes.

    It takes `StartRun`, `Stop` and `PoisonPill`.
    """

    def __init__(self, sessioned: "Sessioned", user_id: str, session_id: str) -> None:
        self._sessioned = sessioned
        self.user_id = user_id
        self.session_id = session_id

    def tell(self, message: StartRun | Stop | PoisonPill) -> None:
        """Send a message, and wait for nothing.

        Raises:
            TypeError: A session takes no such message.
            SessionClosedError: The runner is closed.
            OverloadedError: Too many runs wait in the session.
        """
        self.ask(message)

    def ask(self, message: StartRun | Stop | PoisonPill, timeout: float | None = 30.0) -> Run | None:
        """Send a message; `StartRun` is answered with the run, which is queued then, the others with `None`.

        Raises:
            As `tell`.
        """
        match message:
            case StartRun():
                return self._sessioned.start(self.user_id, self.session_id, message)
            case Stop() | PoisonPill():
                self._sessioned.say(self.user_id, self.session_id, message)
            case _:
                raise TypeError(f"a session takes StartRun, Stop or PoisonPill, not {message!r}")
        return None

    def __repr__(self) -> str:
        return f"<SessionRef {self.user_id}/{self.session_id}>"


class Sessioned:
    """What a `SessionRef` needs of its runner."""

    def __init__(
        self,
        start: Callable[[str, str, StartRun], Run],
        say: Callable[[str, str, Stop | PoisonPill], None],
    ) -> None:
        self.start = start
        self.say = say


class SessionSystem(ActorSystem):
    """The actors of one runner.

    Args:
        dispatcher: Whose threads they run on.
    """

    def __init__(self, *, dispatcher: Dispatcher) -> None:
        super().__init__(dispatcher=dispatcher)
        self.topics = Topics()
        self.sessioned: Sessioned | None = None

    def session(self, *, user_id: str, session_id: str) -> SessionRef:
        """Return a reference to a session of the runner's app, by its key."""
        if self.sessioned is None:
            raise SessionClosedError("this system has no sessions: it has no runner")
        return SessionRef(self.sessioned, user_id, session_id)

    def subscribe(self, ref: ActorRef[Any], *message_types: type) -> None:
        """Tell an actor of `RunStarted`, `EventStored` and `RunEnded`, as they happen, until it stops."""
        self.topics.subscribe(ref, *message_types)
