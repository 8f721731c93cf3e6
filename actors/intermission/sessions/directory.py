"""`Directory`: which sessions are active. It alone sends to them from outside."""

import logging
import os
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
        self._pid = os.getpid()

    def deliver(self, run: Lifecycle) -> None:
        """Put a run into its session's mailbox.

        Raises:
            SessionClosedError: The directory is closed; nothing of the run was stored.
        """
        self._check_process()
        with self._lock:
            if self._closed:
                raise SessionClosedError("the runner is closed: it takes no more runs. Nothing was stored.")
            session = self._sessions.get(run.key)
            if session is None or not session.is_alive():
                session = self._sessions[run.key] = self._start(run.key)
            session.tell(QueueRun(run))

    def close(self, grace: float) -> None:
        """Take no more runs, refuse those that wait, give those under way `grace` seconds, then end them.

        Returns when every end is stored. Closing again is allowed, and finishes a close that was interrupted.
        In a fork of the process it does nothing: the sessions are the parent's.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            retired = {key: (session, threading.Event()) for key, session in self._sessions.items()}
        for session, idle in retired.values():
            self._tell(session, Retire(idle), idle)
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
                self._tell(session, EndRun("shutdown"), idle)
        for key, (session, idle) in retired.items():
            idle.wait()
            session.stop()
            self._sessions.pop(key, None)

    def _tell(self, session: SessionRef, message: Retire | EndRun, idle: threading.Event) -> None:
        try:
            session.tell(message)
        except pykka.ActorDeadError:
            idle.set()  # by a close that was interrupted, or runs inside another

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SessionClosedError(
                f"this runner belongs to process {self._pid}, of which this one is a fork: it takes no runs "
                "here, and nothing was stored. Make a runner in the child, with a log that is opened there."
            )
