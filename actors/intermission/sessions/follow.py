"""`Viewers`: looking at the runs of a session, those of other processes included, without touching them."""

import logging
import threading
import weakref
from collections.abc import Sequence
from functools import partial

from intermission.config import RunConfig
from intermission.content import Content
from intermission.errors import SessionBusyError, SessionNotFoundError
from intermission.kernel.workers import Budget
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.receipt import CancelOutcome, CancelReceipt
from intermission.runs.result import CancelSource, RunResult, RunStatus, Verdict
from intermission.runs.run import Run
from intermission.runs.states import RunState
from intermission.runs.stream import ReadBack
from intermission.sessions.directory import Directory
from intermission.sessions.host import Host
from intermission.sessions.messages import EndLeft
from intermission.sessions.reading import events_after
from intermission.sessions.records import (
    OPEN_RUNS,
    PENDING,
    cancel_requested,
    event_of,
    open_run,
    run_ended,
)
from intermission.sessions.reply import Reply
from intermission.sessions.run_records import RunRecord, result_in_log, runs_in_log, unreadable_run
from intermission_storage import (
    Claim,
    ClaimedError,
    ConflictError,
    IndexEntry,
    Kind,
    LogClosedError,
    Owner,
    Record,
)
from intermission_storage.log import check_page

__all__ = ["Viewers"]

logger = logging.getLogger(__name__)

_LOOK = 0.1  # seconds between two looks whether anybody still wants to see a run of another process


class Viewers:
    """Makes viewers of runs: of those in flight here, of those elsewhere, of those that are over.

    Args:
        host: The runner.
        directory: Its active sessions.
    """

    def __init__(self, host: Host, directory: Directory) -> None:
        self._host = host
        self._directory = directory
        self._changed = threading.Condition()
        self._following = 0
        self._closed = False

    def of_run(self, run: Lifecycle) -> Run:
        """Return a viewer of one run's own events."""
        read_back = partial(
            events_after, self._host.log, run.key.stream, invocation_id=run.invocation_id or ""
        )
        return Run(run, run.view(read_back, 0))

    def of_session(self, key: SessionKey, after: int) -> Run:
        """Return a viewer of a session's events above a number, to the end of the run in flight.

        Raises:
            ValueError: The number is negative.
            SessionNotFoundError: There is no such session, and no run that is about to make it.
            StorageError: The log cannot be read.
        """
        check_page(after, None)
        log = self._host.log
        read_back = partial(events_after, log, key.stream)
        position = log.head(key.stream).position
        local = next((run for run in self._directory.runs() if run.key == key), None)
        if local is not None:
            return Run(local, local.view(read_back, after, until=position))
        head = log.head(key.stream)
        if not head.position:
            raise SessionNotFoundError(key.app, key.user_id, key.session_id)
        claim = head.claim
        if claim is not None and claim.alive and claim.owner != log.owner:
            return self._follow(key, claim, head.position, after)
        seen = Lifecycle(key, Content("user", ()), RunConfig(), self._host.services, _Nowhere(), read_back)
        runs = runs_in_log(log, key)
        seen.invocation_id = runs[-1].invocation_id if runs else None
        seen.end(self._result(key, runs[-1] if runs else None))
        return Run(seen, seen.view(read_back, after, until=head.position))

    def cancel_elsewhere(
        self, key: SessionKey, invocation_id: str | None, reason: str, *, take_over: bool
    ) -> CancelReceipt:
        """End a run that is not under way here, in the log, beside the one that is, if there is any.

        It is paused, or its process is dead, or has released it, or is to be taken over. Without an id it is
        the newest that has no end, or else the newest. What the session's records say is not needed for that:
        one that cannot be read any more is ended, too, and nobody tries to go on with it again.

        Raises:
            SessionBusyError: A process that lives has it, and there is no `take_over`.
            StorageError: The end cannot be stored.
        """
        log = self._host.log
        while True:
            head = log.head(key.stream)
            name = (key.app, key.user_id, key.session_id)
            waiting = [entry for entry in log.index(PENDING, name) if invocation_id in {None, entry.key[3]}]
            found = [*waiting, *log.index(OPEN_RUNS, name)]
            run = self._to_end(key, [entry for entry in found if invocation_id in {None, entry.key[3]}])
            if run is None:
                return CancelReceipt(CancelOutcome.NOTHING_RUNNING)
            claim = head.claim
            beside = self._is_beside(key, run.invocation_id, claim)
            if claim is not None and claim.alive and not (take_over or beside):
                raise SessionBusyError(claim.owner)
            verdict = Verdict(RunStatus.CANCELLED, CancelSource.ADMIN, reason)
            now = self._host.services.clock.time()
            reply = Reply[None]()
            end = EndLeft(
                run.invocation_id,
                records=[
                    cancel_requested(run.invocation_id, verdict, now),
                    run_ended(run.invocation_id, verdict, now, open_calls=run.open_calls),
                ],
                put=self._host.notices.entries(
                    key, run.invocation_id, None if claim is None else claim.token
                ),
                drop=[
                    open_run(key, run.invocation_id),
                    *(entry for entry in waiting if entry.key[3] == run.invocation_id),
                ],
                done=reply.give,
                position=head.position,
            )
            try:
                if beside:
                    reply.of(self._directory.ask(key, end))
                    position = head.position + len(end.records)  # at least
                else:
                    position = self._end(key, end, take_over=take_over)
            except SessionBusyError:
                if not take_over:
                    raise
                continue  # the one beside has ended, and another process has the session
            except (ClaimedError, ConflictError):
                continue  # somebody has appended meanwhile, perhaps the end, or goes on with it
            self._host.notices.ended_in_log(end.put)
            return CancelReceipt(CancelOutcome.ACCEPTED, durable=True, last_seq=position)

    def _is_beside(self, key: SessionKey, invocation_id: str, claim: Claim | None) -> bool:
        """Return whether another run of the session is under way here.

        Raises:
            SessionBusyError: It is that very run, since a moment.
        """
        here = self._directory.runs(key.user_id, key.session_id)
        under_way = {one.invocation_id for one in here if one.result is None}
        if claim is None or claim.owner != self._host.log.owner:
            return False
        if invocation_id in under_way:
            raise SessionBusyError(claim.owner)
        return bool(under_way)

    def _end(self, key: SessionKey, end: EndLeft, *, take_over: bool) -> int:
        """Store the end of a run in a session that nobody has, and return its number."""
        appended = self._host.log.append(
            key.stream,
            end.records,
            expected=end.position,
            claim=True,
            take_over=take_over,
            release=True,
            put=end.put,
            drop=end.drop,
        )
        return appended.position

    def _to_end(self, key: SessionKey, entries: Sequence[IndexEntry]) -> RunRecord | None:
        """Return the run to end, of those with these entries: the newest, those without an end first."""
        ids = {entry.key[3] for entry in entries}
        if not ids:
            return None
        try:
            runs = [run for run in runs_in_log(self._host.log, key) if run.invocation_id in ids]
        except LogClosedError:
            raise
        except Exception as error:
            logger.exception("a run is ended without its records", extra={"session": key.session_id})
            last = max(entries, key=lambda entry: (entry.index == OPEN_RUNS, entry.value.get("since", 0.0)))
            return unreadable_run(key, last.key[3], error)
        return next((run for run in reversed(runs) if run.status is None), runs[-1] if runs else None)

    def close(self) -> None:
        """Follow nothing any more, and return when nobody does."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._following, 30.0)

    def _result(self, key: SessionKey, run: RunRecord | None) -> RunResult:
        if run is None:
            return RunResult(status=RunStatus.COMPLETED)
        return result_in_log(self._host.log, key, run)

    # Runs of other processes.

    def _follow(self, key: SessionKey, claim: Claim, position: int, after: int) -> Run:
        log = self._host.log
        read_back = partial(events_after, log, key.stream)
        run = _RunElsewhere(key, claim.owner, self._host, read_back)
        open_runs = [one for one in runs_in_log(log, key) if one.status is None]
        run.invocation_id = open_runs[-1].invocation_id if open_runs else None
        viewer = Run(run, run.view(read_back, after, until=position))
        run.begin(position)
        with self._changed:
            self._following += 1
        follower = partial(self._pump, weakref.ref(run), key, claim, position)
        self._host.services.workers.submit(
            follower, budget=Budget.HOOKS, refused=partial(self._left, weakref.ref(run), key)
        )
        return viewer

    def _pump(self, seen: "weakref.ref[_RunElsewhere]", key: SessionKey, claim: Claim, position: int) -> None:
        try:
            # Between two looks nothing here holds the run: who drops its viewer ends this.
            while not self._closed and seen() is not None:
                records = self._host.log.follow(key.stream, after=position, timeout=_LOOK)
                if records:
                    position = records[-1].seq
                    over = self._show(seen, records)
                else:
                    over = self._is_given_up(key, claim, position)
                if over:
                    break
        except LogClosedError:
            pass
        except Exception:
            logger.exception("a run elsewhere could not be followed", extra={"session": key.session_id})
        finally:
            self._left(seen, key)

    def _show(self, seen: "weakref.ref[_RunElsewhere]", records: list[Record]) -> bool:
        run = seen()
        if run is None:
            return True
        for record in records:
            if record.kind == Kind.EVENT:
                run.show_now(event_of(record))
            elif record.kind == Kind.RUN_ENDED and record.data["invocationId"] == run.invocation_id:
                return True
        return False

    def _is_given_up(self, key: SessionKey, claim: Claim, position: int) -> bool:
        head = self._host.log.head(key.stream)
        held = head.claim is not None and head.claim.alive and head.claim.token == claim.token
        return not held and head.position <= position

    def _left(self, seen: "weakref.ref[_RunElsewhere]", key: SessionKey) -> None:
        run = seen()
        try:
            if run is not None:
                run.end(self._end_of(run, key))
        finally:
            with self._changed:
                self._following -= 1
                self._changed.notify_all()

    def _end_of(self, run: Lifecycle, key: SessionKey) -> RunResult:
        try:
            runs = runs_in_log(self._host.log, key)
        except Exception:  # noqa: BLE001 - the log is closed or broken: all that is known is that it goes on there
            runs = []
        for record in runs:
            if record.invocation_id == run.invocation_id and (record.status or not self._closed):
                return self._result(key, record)
        return RunResult(status=RunStatus.ELSEWHERE, invocation_id=run.invocation_id)


class _Nowhere:
    """The way to the session of a run that is over."""

    def deliver(self, run: Lifecycle) -> None:
        """It is not started."""

    def cancel(self, run: Lifecycle) -> None:
        """It has ended."""


class _RunElsewhere(Lifecycle):
    """A run that another process has under way."""

    def __init__(self, key: SessionKey, owner: Owner, host: Host, read_back: ReadBack) -> None:
        super().__init__(key, Content("user", ()), RunConfig(), host.services, _Nowhere(), read_back)
        self._owner = owner
        self._state = RunState.QUEUED

    def cancel(
        self, source: CancelSource, reason: str = "", *, error: Exception | None = None
    ) -> CancelOutcome:
        """See `Lifecycle.cancel`.

        Raises:
            SessionBusyError: The run has not ended; only its own process can end it, or a take-over.
        """
        if self.result is None:
            raise SessionBusyError(self._owner)
        return CancelOutcome.ALREADY_ENDED

    def request_stop(self, reason: str = "") -> None:
        """See `cancel`."""
        if self.result is None:
            raise SessionBusyError(self._owner)
