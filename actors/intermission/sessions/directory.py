"""`Directory`: which sessions are active. It alone sends to them from outside."""

import logging
import threading
import time
from collections.abc import Callable

import pykka

from intermission.errors import SessionClosedError
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.sessions.actor import SessionActor
from intermission.sessions.messages import EndRun, QueueRun, Retire

__all__ = ["Directory", "SessionRef"]

logger = logging.getLogger(__name__)

SessionRef = pykka.ActorRef[SessionActor]


class Directory:
    """The active sessions of one runner, each started with its first run.

    Looking a session up and putting a message into its mailbox is one step under one lock, and so is
    closing: no message can meet a session that is going.

    Args:
        start: Starts the actor of a session.
    """

    def __init__(self, start: Callable[[SessionKey], SessionRef]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._sessions: dict[SessionKey, SessionRef] = {}
        self._closed = False

    def deliver(self, run: Lifecycle) -> None:
        """Put a run into its session's mailbox.

        Raises:
            SessionClosedError: The directory is closed; nothing of the run was stored.
        """
        with self._lock:
            if self._closed:
                raise SessionClosedError("the runner is closed: it takes no more runs. Nothing was stored.")
            session = self._sessions.get(run.key)
            if session is None:
                session = self._sessions[run.key] = self._start(run.key)
            session.tell(QueueRun(run))

    def close(self, grace: float) -> None:
        """Take no more runs, refuse those that wait, give those under way `grace` seconds, then end them.

        Returns when every end is stored. Closing again is allowed, and finishes a close that was interrupted.
        """
        with self._lock:
            self._closed = True
            retired = {key: (session, threading.Event()) for key, session in self._sessions.items()}
        for session, idle in retired.values():
            session.tell(Retire(idle))
        deadline = time.monotonic() + grace
        for key, (session, idle) in retired.items():
            if not idle.wait(max(0.0, deadline - time.monotonic())):
                logger.warning(
                    "a run of session %s had not ended %s s after the runner's close and ends as cancelled. "
                    "Its model or tool call goes on until it returns; nothing of it is stored any more.",
                    key.session_id,
                    grace,
                    extra={"session": key.session_id},
                )
                session.tell(EndRun("shutdown"))
        for key, (session, idle) in retired.items():
            idle.wait()
            session.stop()
            del self._sessions[key]
