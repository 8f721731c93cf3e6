"""`SessionWriter`: gives a session's batches to the log, and keeps the end that the log refused."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import pykka

from intermission.events import NO_ACTIONS, Event, EventActions
from intermission.keys import SessionKey
from intermission.runs.messages import Append
from intermission.runs.result import RunStatus, Verdict
from intermission.sessions.batch import Batch, Purpose
from intermission.sessions.current import CurrentRun
from intermission.sessions.host import Host
from intermission.sessions.records import (
    cancel_requested,
    event_record,
    open_run,
    run_ended,
    run_started,
    session_created,
    session_entry,
)
from intermission.sessions.shared_state import shared_records
from intermission.sessions.view import SessionView
from intermission_storage import Appended, IndexEntry, Record, StorageError

__all__ = ["SessionWriter"]

_Outcome: TypeAlias = Appended | StorageError  # to annotate an inner function costs what it says each time


class SessionWriter:
    """Makes the batches of one session and submits them. A run's are written under a claim of its own.

    The claim is made with the run's first records and given up with its last, each in their commit, so that
    of several processes one has the session at a time.

    Args:
        key: The session.
        host: The runner.
        stored: Called with each batch and what came of it, on any thread.
    """

    __slots__ = (
        "_host",
        "_key",
        "_stored",
        "changes",
        "owed",
        "paying",
    )  # there is one for each idle session

    def __init__(
        self, key: SessionKey, host: Host, stored: Callable[[Batch, Appended | StorageError], None]
    ) -> None:
        self._key = key
        self._host = host
        self._stored = stored
        self.owed: Batch | None = None  # a run's end that the log has refused; it comes before the next run
        self.paying = False  # whether it is with the log
        self.changes = 0  # records of no run that are with the log

    def begin(self, current: CurrentRun, view: SessionView) -> None:
        """Claim the session with a run's first records; a new session is created with them.

        The user event is not among them if plugins are to see the message before.

        Raises:
            Exception: They cannot be written; nothing was.
        """
        run = current.run
        assert run.invocation_id is not None
        current.outcome = None
        current.began = now = self._host.services.clock.time()
        records, message = [run_started(run.invocation_id, now)], None
        if not self._host.app.plugins.hooks("on_user_message_callback"):
            message = Event(
                invocation_id=run.invocation_id,
                author="user",
                timestamp=now,
                content=run.message,
                actions=EventActions(state_delta=run.stored_delta) if run.state_delta else NO_ACTIONS,
            )
            records.append(event_record(message))
        entries = [open_run(self._key, run.invocation_id)]
        needs: list[IndexEntry] = []
        if view.position == 0:
            created = session_created(self._key, now)
            records.insert(0, created)
            entries.append(session_entry(self._key, now, created.data["id"]))
        elif view.identity is not None:
            # As many records as it has, another one may have that was made anew under its name.
            needs.append(session_entry(self._key, view.created, view.identity))
        batch = Batch(Purpose.BEGIN, records, current, event=message)
        # What is with the log already is committed before, or this is refused with it.
        self._submit(batch, claim=True, expected=view.position + self.changes, put=entries, needs=needs)

    def append(self, message: Append, current: CurrentRun, verdict: Verdict | None) -> None:
        """Append what a strand asks for; with a verdict, the run ends in the same commit.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        records = [*message.before]
        if message.event is not None:
            records.append(event_record(message.event))
        records += message.after
        batch = Batch(
            Purpose.EVENT,
            records,
            current,
            event=message.event,
            stored=message.stored,
            opening=message.opening,
            token=current.token,
        )
        if verdict is None:
            self._submit(batch)
        else:
            self._submit_end(batch, current, verdict)

    def end(self, current: CurrentRun, verdict: Verdict, before: Sequence[Record] = ()) -> None:
        """Append a run's end and give the session up.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        batch = Batch(Purpose.END, list(before), current, token=current.token)
        self._submit_end(batch, current, verdict)

    def change(self, record: Record, current: CurrentRun | None, batch: Batch, expected: int) -> None:
        """Append a record of no run; with no run under way, to a session that ends at a number.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        batch.records = [record]
        holder = current or self.owed
        batch.token = None if holder is None else holder.token
        self._submit(batch, expected=expected if batch.token is None else None, drop=batch.drop)
        self.changes += 1

    def pay(self) -> None:
        """Try again to append the end that is owed.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        assert self.owed is not None
        self._submit(self.owed, release=True, put=self.owed.put, drop=self.owed.drop)
        self.paying = True

    def owe(self, batch: Batch) -> None:
        """Keep an end that the log refused."""
        self.owed = Batch(Purpose.OWED_END, batch.records, token=batch.token, put=batch.put, drop=batch.drop)

    def failed_end(self, current: CurrentRun, verdict: Verdict, error: Exception) -> Batch:
        """Return the batch of an end that says why the run's own could not be stored."""
        failed = Verdict(RunStatus.FAILED, reason=verdict.reason, error=verdict.error or error)
        batch = Batch(Purpose.END, [], current, token=current.token, verdict=failed)
        batch.records = [run_ended(current.run.invocation_id or "", failed, current.began)]
        batch.put = self._host.notices.entries(self._key, current.run.invocation_id or "", current.token)
        batch.drop = self._dropped(current, failed)
        return batch

    def _submit_end(self, batch: Batch, current: CurrentRun, verdict: Verdict) -> None:
        invocation_id = current.run.invocation_id or ""
        now = self._host.services.clock.time()
        records = list(batch.records)
        current.take_in(records, None)
        if verdict.source is not None:
            records.append(cancel_requested(invocation_id, verdict, now))
        records.append(run_ended(invocation_id, verdict, now, open_calls=current.open_calls))
        batch.purpose = Purpose.END
        batch.records = records
        batch.verdict = verdict
        batch.put = self._host.notices.entries(self._key, invocation_id, current.token)
        batch.drop = self._dropped(current, verdict)
        self._submit(batch, release=True, put=batch.put, drop=batch.drop)

    def _dropped(self, current: CurrentRun, verdict: Verdict) -> list[IndexEntry]:
        if verdict.status is RunStatus.INTERRUPTED:
            return []  # it is still to be found, by whoever goes on with it
        return [open_run(self._key, current.run.invocation_id or "")]

    def _submit(
        self,
        batch: Batch,
        *,
        expected: int | None = None,
        claim: bool = False,
        release: bool = False,
        put: Sequence[IndexEntry] = (),
        drop: Sequence[IndexEntry] = (),
        needs: Sequence[IndexEntry] = (),
    ) -> None:
        also = shared_records(self._key, batch.records)

        def done(outcome: _Outcome) -> None:
            if also and isinstance(outcome, Appended):
                self._host.shared.changed(also)
            if claim and batch.current is not None:
                batch.current.begun(outcome)
            with suppress(pykka.ActorDeadError):  # the session has stopped, and has left its run to others
                self._stored(batch, outcome)

        log, stream, token = self._host.log, self._key.stream, batch.token
        if not (claim or release or put or drop or also) and expected is None:
            # A log has less to do for a batch that asks for nothing more, as most are.
            log.submit(stream, batch.records, done, token=token)
            return
        log.submit(
            stream,
            batch.records,
            done,
            expected=expected,
            token=token,
            claim=claim,
            release=release,
            put=put,
            drop=drop,
            needs=needs,
            also=also,
        )
