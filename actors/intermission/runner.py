"""`Runner`: the caller's way in."""

import os
import threading
from types import TracebackType
from typing import Self

from intermission.agents.app import App
from intermission.config import RunConfig
from intermission.content import Content
from intermission.kernel.clock import Clock, SystemClock
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.run import Run
from intermission.sessions.actor import SessionActor
from intermission.sessions.catalog import Sessions
from intermission.sessions.directory import Directory, SessionRef
from intermission_storage import EventLog, LmdbEventLog

__all__ = ["Runner"]


class Runner:
    """Runs an app's agent on sessions that live in an event log. A context manager.

    Args:
        app: What to run.
        log: A path, whose log the runner opens and closes, or an `EventLog`, which the caller closes.
        config: Settings of runs that are given none of their own.
        clock: Where the events' times come from; the machine's clock by default.

    Attributes:
        sessions: The app's sessions, for reading.

    Raises:
        TypeError: There is no log.
        StorageError: The log at the path cannot be opened.
    """

    def __init__(
        self,
        app: App,
        *,
        log: str | os.PathLike[str] | EventLog | None = None,
        config: RunConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        if log is None:
            raise TypeError(
                "Runner needs a log: log='sessions.lmdb' keeps the sessions on disk, "
                "log=MemoryEventLog() (from intermission_storage) only as long as the process lives"
            )
        self._app = app
        self._config = config or RunConfig()
        self._clock = clock or SystemClock()
        self._owns_log = isinstance(log, str | os.PathLike)
        if isinstance(log, str | os.PathLike):
            self._log: EventLog = LmdbEventLog(log)
        else:
            self._log = log
        self._directory = Directory(self._start_session)
        self._closing = threading.RLock()  # a second closer must not close the log under the first
        self.sessions = Sessions(app.name, self._log)

    def run(
        self, *, user_id: str, session_id: str, message: str | Content, config: RunConfig | None = None
    ) -> Run:
        """Return a cold run of the app's agent on a session; a missing session is created when it starts.

        Runs of one session follow each other in the order in which they were started.

        Args:
            user_id: The session's user.
            session_id: The session.
            message: What the user says.
            config: The run's settings; the runner's by default.

        Raises:
            TypeError: A key is no `str`, or the message is neither `str` nor `Content`.
            ValueError: A key is empty, or the message has no parts.
        """
        key = SessionKey(self._app.name, user_id, session_id)
        content = Content.user(message) if isinstance(message, str) else message
        if not isinstance(content, Content):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"message must be str or Content, not {type(message).__name__}")
        if not content.parts:
            raise ValueError("the message has no parts: there is nothing to run on")
        return Run(Lifecycle(key, content, config or self._config, self._directory.deliver))

    def close(self, grace: float = 5.0) -> None:
        """Take no more runs, and return when every run has ended and its end is stored. Idempotent.

        Runs that wait behind another end with `SessionClosedError`. Runs under way get `grace` seconds to
        end by themselves; those left end `cancelled`, for the reason `"shutdown"`. A model or tool call of
        such a run cannot be aborted in this version: its thread goes on until the call returns, and nothing
        of it is stored or shown. A log that the runner opened is closed.

        Raises:
            ValueError: `grace` is no number of seconds.
        """
        if not grace >= 0:
            raise ValueError(f"grace is {grace}: give seconds, at least 0")
        with self._closing:
            self._directory.close(min(grace, threading.TIMEOUT_MAX))
            if self._owns_log:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_session(self, key: SessionKey) -> SessionRef:
        return SessionActor.start(key, self._app, self._log, self._clock)
