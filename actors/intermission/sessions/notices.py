"""`Notices`: plugins are told of ended runs and of residual work, and nobody waits for them.

That a run has ended is told at least once. Its end in the log comes with an entry in an index, which goes
when the hooks have returned; what a dead process has left there is told by the next runner that opens the
log. The entries name their runner, which holds a stream of that name as long as it lives: who can claim the
stream of another may tell its ends, and nobody else does at that time.
"""

import contextvars
import logging
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from intermission.agents.app import App
from intermission.content import FunctionResponse
from intermission.ids import new_hex
from intermission.kernel.workers import Budget
from intermission.keys import SessionKey
from intermission.runs.background import Background, Notice
from intermission.runs.calls import Outcome
from intermission.runs.hooks import hook_name
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.receipt import ResidualOutcome
from intermission.runs.residual import residual_work
from intermission.runs.result import RunResult, RunStatus
from intermission.runs.run import Run
from intermission.runs.services import Services
from intermission.runs.work import Piece
from intermission.sessions.current import CurrentRun
from intermission.sessions.messages import EndDelivered
from intermission.sessions.reading import events_after
from intermission.sessions.records import UNDELIVERED, run_end_delivered, state_set, undelivered
from intermission.sessions.run_records import result_in_log, run_in_log, unreadable_run
from intermission_storage import (
    ClaimedError,
    ConflictError,
    EventLog,
    IndexEntry,
    LogClosedError,
    StorageError,
)

__all__ = ["Notices"]

logger = logging.getLogger(__name__)

_PAGE = 100
_MAX_ATTEMPTS = 100  # at a session that others append to all the time


class Notices:
    """Tells an app's plugins what has happened, on workers.

    Args:
        app: The app.
        log: Where everything is kept.
        services: What the runs share.
        tell: Puts a message into the mailbox of a session that is active, and returns whether it is.
    """

    def __init__(
        self, app: App, log: EventLog, services: Services, tell: Callable[[SessionKey, object], bool]
    ) -> None:
        self._app = app.name
        self._log = log
        self._services = services
        self._tell = tell
        self._on_error = app.plugins.hooks("on_run_error_callback")
        self._on_end = app.plugins.hooks("on_run_end")
        self._on_residual = app.plugins.hooks("on_residual_end")
        self._background = Background(services)
        self._id = new_hex()
        self._token: int | None = None  # of this runner's own stream
        self._marking: dict[tuple[str, ...], IndexEntry] = {}  # sessions were asked to store that it was told
        self._unmarked: set[tuple[str, ...]] = set()  # told, while their end is not in the log yet

    # When the runner opens and closes.

    def open(self) -> None:
        """Tell what others have left to be told."""
        if not self._on_end:
            return
        try:
            self._token = self._hold(self._id)
        except StorageError:
            logger.warning("this runner's run ends may be told twice: the log takes no record", exc_info=True)
        self._background.call(self._left_behind(), contextvars.copy_context())

    def close(self, timeout: float) -> None:
        """Wait for the hooks that are called, at most so many seconds; see `Background.close`."""
        if self._services.workers.is_foreign:
            return  # a fork of the process has none of the threads
        left = self._background.close(timeout)
        if left:
            logger.warning(
                "%d hooks of ended runs had not returned when the runner was closed. Ends of runs that were "
                "not told to the end are told again when the log is opened next.",
                left,
            )
        for entry in tuple(self._marking.values()):
            self._mark(entry)  # its session has stopped before it came to that
        token, self._token = self._token, None
        if token is not None:
            with suppress(StorageError):
                self._log.delete(_stream(self._id), token=token)

    # What sessions have it tell.

    def entries(self, key: SessionKey, invocation_id: str, token: int | None) -> list[IndexEntry]:
        """Return what is put into the log's indexes with a run's end, under that claim."""
        return [undelivered(key, invocation_id, token, self._id)] if self._on_end else []

    def watch(self, run: Lifecycle) -> None:
        """Have it told what becomes of the run's residual work."""
        if self._on_residual:
            run.work.late = partial(self._late, weakref.ref(run))

    def ended(self, current: CurrentRun, result: RunResult) -> None:
        """Tell that a run which has records has ended."""
        if not (self._on_end or self._on_error):
            return
        run = current.run
        notices: list[Notice] = []
        extra = _extra(run.key, run.invocation_id)
        failed = result.status in {RunStatus.FAILED, RunStatus.EXPIRED}
        if failed and result.error is not None and current.environment is not None:
            context = current.environment.context()
            for hook in self._on_error:
                function = partial(hook, invocation_context=context, error=result.error)
                notices.append(Notice(hook_name(hook), function, extra))
        if self._on_end:
            invocation_id = run.invocation_id or ""
            read_back = partial(events_after, self._log, run.key.stream, invocation_id=invocation_id)
            seen = Run(run, run.view(read_back, 0))
            notices += [Notice(hook_name(hook), partial(hook, seen, result), extra) for hook in self._on_end]
            entry = undelivered(run.key, invocation_id, current.token, self._id)
            if result.last_seq is None:
                notices.append(Notice("", partial(self._unmarked.add, entry.key), extra))
            notices.append(Notice("", partial(self._mark, entry), extra))
        self._background.call(notices, run.context)

    def ended_in_log(self, entries: Sequence[IndexEntry]) -> None:
        """Tell of a run which this runner has only given its end in the log, with these entries."""
        for entry in entries:
            self._background.call(self._from_log(entry), contextvars.copy_context())

    def end_paid(self, entries: Sequence[IndexEntry]) -> None:
        """An end is in the log that it had refused before, with these entries."""
        for entry in entries:
            if entry.key in self._unmarked:
                self._unmarked.discard(entry.key)
                self._services.workers.submit(self._mark, entry, budget=Budget.RESERVE)

    # What is told from the log.

    def _left_behind(self) -> Iterator[Notice]:
        tokens: dict[str, int | None] = {self._id: None}  # of other runners' streams; None: they live
        last: IndexEntry | None = None
        while page := self._log.index(UNDELIVERED, (self._app,), after=last, limit=_PAGE):
            last = page[-1]
            for entry in page:
                owner = str(entry.value.get("runner", ""))
                if owner not in tokens:
                    tokens[owner] = self._take_over(owner)
                if tokens[owner] is not None:
                    yield from self._from_log(entry)
        for owner, token in tokens.items():
            if token is not None:
                with suppress(StorageError):
                    self._log.delete(_stream(owner), token=token)

    def _from_log(self, entry: IndexEntry) -> Iterator[Notice]:
        key, invocation_id = _named(entry)
        extra = _extra(key, invocation_id)
        try:
            record = run_in_log(self._log, key, invocation_id)
            if record is None or record.status is None:
                return
            result = result_in_log(self._log, key, record)
        except LogClosedError:
            raise
        except Exception as error:  # the others are told all the same
            logger.exception("the end of a run is told without its records", extra=extra)
            record = unreadable_run(key, invocation_id, error)
            result = RunResult(status=RunStatus.FAILED, error=error, invocation_id=invocation_id)
        for hook in self._on_end:
            yield Notice(hook_name(hook), partial(hook, record, result), extra)
        yield Notice("", partial(self._mark, entry), extra)

    def _hold(self, owner: str) -> int | None:
        now = self._services.clock.time()
        return self._log.append(_stream(owner), [state_set({}, now)], claim=True).token

    def _take_over(self, owner: str) -> int | None:
        try:
            return self._hold(owner)
        except ClaimedError:
            return None

    # That it was told.

    def _mark(self, entry: IndexEntry, attempt: int = 1) -> None:
        """Have the log know that a run's end was told."""
        key, invocation_id = _named(entry)
        done = partial(self._marked, entry, attempt)
        try:
            position = self._log.head(key.stream).position
            if not self._log.index(UNDELIVERED, entry.key):
                done(None)  # the session was deleted, or the end is still to be stored
                return
            self._marking[entry.key] = entry
            if not self._tell(key, EndDelivered(invocation_id, entry, done, position)):
                now = self._services.clock.time()
                record = run_end_delivered(invocation_id, now)
                self._log.append(key.stream, [record], expected=position, drop=[entry])
                done(None)
        except Exception as error:  # noqa: BLE001 - it is told again by the next who opens the log
            done(error)

    def _marked(self, entry: IndexEntry, attempt: int, error: BaseException | None) -> None:
        self._marking.pop(entry.key, None)
        if isinstance(error, ConflictError) and attempt < _MAX_ATTEMPTS:
            self._services.workers.submit(self._mark, entry, attempt + 1, budget=Budget.RESERVE)
        elif error is not None:
            key, invocation_id = _named(entry)
            logger.warning(
                "that the end of run %s was told could not be stored, so it will be told again: %s",
                invocation_id,
                error,
                extra=_extra(key, invocation_id),
            )

    # Residual work.

    def _late(self, seen: "weakref.ref[Lifecycle]", piece: Piece, outcome: Outcome | None) -> None:
        run = seen()
        work = None if run is None else residual_work(run, piece, time.monotonic())
        if run is None or work is None:
            return  # it ended in time
        came, extra = _outcome(outcome), _extra(run.key, run.invocation_id)
        notices = [Notice(hook_name(hook), partial(hook, work, came), extra) for hook in self._on_residual]
        outer = run.work.outer
        if not self._background.call(notices, run.context) and outer is not None and outer.late is not None:
            outer.late(piece, outcome)  # of a call whose agent had a runner of its own, which is closed


def _outcome(outcome: Outcome | None) -> ResidualOutcome:
    value, error = (None, None) if outcome is None else outcome
    if isinstance(value, tuple) and value and isinstance(value[0], FunctionResponse):
        value = dict(value[0].response)  # of a tool, with what it has changed, which nobody takes over
    return ResidualOutcome(value, error)


def _stream(runner: str) -> str:
    return f"run ends {runner}"  # no session's stream has a space


def _named(entry: IndexEntry) -> tuple[SessionKey, str]:
    app, user_id, session_id, invocation_id = entry.key[:4]
    return SessionKey(app, user_id, session_id), invocation_id


def _extra(key: SessionKey, invocation_id: str | None) -> Mapping[str, Any]:
    return {"session": key.session_id, "user": key.user_id, "invocation": invocation_id}
