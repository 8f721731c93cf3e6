"""`Closing`: closes what a runner has made, in order and once, whoever asks for it."""

import sys
import threading
import time

from intermission.kernel.dispatcher import blocking_here, seat_here
from intermission.kernel.system import ActorSystem
from intermission.runs.closers import awaited_here, sessions_held_here
from intermission.runs.plugin_closing import PluginClosing
from intermission.runs.services import Services
from intermission.sessions.directory import Directory
from intermission.sessions.follow import Viewers
from intermission.sessions.notices import Notices
from intermission_storage import EventLog

__all__ = ["Closing"]

_PATIENCE = 1.0  # seconds that hooks and plugins have at least, when runs have taken all of the grace


class Closing:
    """Closes a runner: the intake, the runs, what is told of them, the plugins, the threads and the log.

    Args:
        directory: The active sessions.
        viewers: Who follows runs of other processes.
        notices: What is told of ended runs.
        system: The program's own actors.
        services: What the runs share.
        log: The log, if it is the runner's own.
    """

    def __init__(
        self,
        directory: Directory,
        viewers: Viewers,
        notices: Notices,
        system: ActorSystem,
        services: Services,
        log: EventLog | None,
    ) -> None:
        self._directory = directory
        self._viewers = viewers
        self._notices = notices
        self._plugins = PluginClosing(services.plugins.to_close, services)
        self._system = system
        self._services = services
        self._log = log
        # A second closer must not close the log under the first. A signal handler may be one, inside another.
        self._lock = threading.RLock()

    def close(self, grace: float, *, release: bool) -> list[Exception] | None:
        """Close everything, and return what plugins raised.

        Args:
            grace: Seconds that runs have to end by themselves.
            release: What becomes of those left; see `Directory.close`.

        Returns:
            `None` if somebody else is about it, who may wait for the caller: an actor, or code of a run.
        """
        if sys.is_finalizing():  # a `__del__`, when Python ends: who could be waited for has stopped for ever
            return []
        must_not_wait = seat_here() is not None or awaited_here(self._services) is not None
        if not self._lock.acquire(blocking=not must_not_wait):
            return None
        try:
            with blocking_here():
                return self._close(min(grace, threading.TIMEOUT_MAX), release=release)
        finally:
            self._lock.release()

    def hasten(self) -> None:
        """End the grace of a close that is under way, or is still to come."""
        self._directory.hasten()

    def _close(self, grace: float, *, release: bool) -> list[Exception]:
        self._viewers.close()
        deadline = time.monotonic() + grace
        self._directory.close(grace, release=release, held=sessions_held_here(self._services))
        self._notices.close(max(deadline - time.monotonic(), _PATIENCE))
        errors = self._plugins.close(max(deadline - time.monotonic(), _PATIENCE))
        self._services.system.close()
        self._system.close()
        self._services.loops.close()
        self._services.children.close()
        self._services.workers.close()
        self._services.timer.close()
        if self._log is not None:
            self._log.close()
        return errors
