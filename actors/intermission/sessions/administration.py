"""`Administration`: looking at, following and ending the runs of sessions, by the sessions' keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.keys import SessionKey
from intermission.pending import PendingCall
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.receipt import CancelReceipt, ResidualWork
from intermission.runs.residual import receipt_of, residual_of
from intermission.runs.result import CancelSource
from intermission.runs.run import Run
from intermission.runs.waiting import Deadline, in_worker, wait_async, waiting_for_cancel
from intermission.sessions.catalog import Sessions
from intermission.sessions.directory import Directory
from intermission.sessions.follow import Viewers
from intermission.sessions.host import Host
from intermission.sessions.metrics import metrics_of
from intermission.sessions.reading import pending_calls
from intermission_storage import EventLog

__all__ = ["Administration"]


class Administration:
    """The half of a `Runner` that deals with runs which others have started.

    Args:
        host: What the sessions' actors need of the runner.
        directory: The active sessions.

    Attributes:
        sessions: The app's sessions.
    """

    def __init__(self, host: Host, directory: Directory) -> None:
        self._host = host
        self._directory = directory
        self._viewers = Viewers(host, directory)
        self.sessions = Sessions(host, directory)

    @property
    def log(self) -> EventLog:
        """The event log, the one that was handed in or the runner's own."""
        return self._host.log

    def active(self, *, user_id: str | None = None, session_id: str | None = None) -> list[Run]:
        """Return the runs that are queued or under way here, oldest first, as viewers.

        Args:
            user_id: Only this user's.
            session_id: Only those of the sessions of this id.
        """
        return [self._viewers.of_run(run) for run in self._under_way(user_id, session_id)]

    def attach(self, *, user_id: str, session_id: str, after: int = 0) -> Run:
        """Return a viewer of a session: its stored events, then those of the run in flight, to its end.

        No event is missing and none comes twice. With no run in flight it ends after the stored ones. Of a
        run that another process has under way, it shows the stored events as they are committed. A viewer
        that is left touches nothing; its `cancel` cancels the run.

        Args:
            user_id: The session's user.
            session_id: The session.
            after: Only events with a higher `seq`.

        Raises:
            ValueError: `after` is negative.
            SessionNotFoundError: There is no such session.
            StorageError: The log cannot be read.
        """
        warn_of_blocking("Runner.attach", "aattach")
        return self._viewers.of_session(SessionKey(self._host.app.name, user_id, session_id), after)

    async def aattach(self, *, user_id: str, session_id: str, after: int = 0) -> Run:
        """As `attach`, without blocking the event loop."""
        return await in_worker(
            self._host.services, lambda: self.attach(user_id=user_id, session_id=session_id, after=after)
        )

    def pending(self, *, user_id: str, session_id: str) -> list[PendingCall]:
        """Return the calls of a session that wait for an answer, oldest first, as they are in the log now.

        Raises:
            StorageError: The log cannot be read.
        """
        warn_of_blocking("Runner.pending", "apending")
        return pending_calls(self._host.log, SessionKey(self._host.app.name, user_id, session_id))

    async def apending(self, *, user_id: str, session_id: str) -> list[PendingCall]:
        """As `pending`, without blocking the event loop."""
        return await in_worker(
            self._host.services, lambda: self.pending(user_id=user_id, session_id=session_id)
        )

    def cancel(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        reason: str = "",
        wait: bool = False,
        timeout: float | None = None,
        take_over: bool = False,
    ) -> CancelReceipt:
        """Cancel the run of a session that is under way, or the one of that invocation; see `Run.cancel`.

        A run that its process has left without an end gets one in the log.

        Args:
            user_id: The session's user.
            session_id: The session.
            invocation_id: Only this run.
            reason: Why; it is kept in the log.
            wait: Wait until the end is stored, and all work of the run has really returned.
            timeout: Seconds to wait at most.
            take_over: Whether to end a run that another process has under way, too.

        Raises:
            SessionBusyError: Another process has the run under way.
            StorageError: There is no such run here, and the log cannot be read or written.
        """
        deadline = Deadline(timeout)
        run = self._find(user_id, session_id, invocation_id)
        if run is None:
            warn_of_blocking("Runner.cancel", "acancel")
            key = SessionKey(self._host.app.name, user_id, session_id)
            return self._viewers.cancel_elsewhere(key, invocation_id, reason, take_over=take_over)
        outcome = run.cancel(CancelSource.ADMIN, reason)
        if wait:
            warn_of_blocking("Runner.cancel", "acancel")
            with waiting_for_cancel(run):
                run.wait_ended(deadline.left)
                run.work.wait(deadline.left)
        return receipt_of(run, outcome)

    async def acancel(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        reason: str = "",
        wait: bool = False,
        timeout: float | None = None,
        take_over: bool = False,
    ) -> CancelReceipt:
        """As `cancel`, without blocking the event loop."""
        deadline = Deadline(timeout)
        run = self._find(user_id, session_id, invocation_id)
        if run is None:
            key = SessionKey(self._host.app.name, user_id, session_id)
            return await in_worker(
                self._host.services,
                lambda: self._viewers.cancel_elsewhere(key, invocation_id, reason, take_over=take_over),
            )
        outcome = run.cancel(CancelSource.ADMIN, reason)
        if wait:
            with waiting_for_cancel(run):
                await wait_async(run, lambda: run.result is not None and not run.work.pieces, deadline.left)
        return receipt_of(run, outcome)

    def stop(
        self, *, user_id: str, session_id: str, invocation_id: str | None = None, reason: str = ""
    ) -> None:
        """Stop the run of a session that is under way, or the one of that invocation; see `Run.stop`."""
        run = self._find(user_id, session_id, invocation_id)
        if run is not None:
            run.request_stop(reason)

    def residual(self) -> list[ResidualWork]:
        """Return the work that outlives its run, or that its run has gone on without, oldest first."""
        return residual_of([*self._directory.lingering(), *self._directory.runs()])

    def metrics(self) -> Mapping[str, Any]:
        """Return what this runner has counted since it was made, and what it has at the moment.

        Values are numbers, mappings of labels to numbers, and histograms as mappings; how many there are does
        not grow. The documentation explains the names; those of the log are there if it counts. It is a
        copy, and cheap enough to be asked for each second.
        """
        return metrics_of(self._host, self._directory)

    def _find(self, user_id: str, session_id: str, invocation_id: str | None) -> Lifecycle | None:
        runs = self._under_way(user_id, session_id)
        return next((run for run in runs if invocation_id in {None, run.invocation_id}), None)

    def _under_way(self, user_id: str | None, session_id: str | None) -> Iterator[Lifecycle]:
        # One that has told its end is in the directory for a moment longer.
        return (run for run in self._directory.runs(user_id, session_id) if run.result is None)
