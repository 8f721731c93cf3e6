"""`SessionWriter`: gives a session's batches to the log, and keeps the end that the log refused."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import pykka

from intermission.agents.routing import route
from intermission.agents.tree import describe
from intermission.events import NO_ACTIONS, Event, EventActions
from intermission.keys import SessionKey
from intermission.runs.messages import Append, Item
from intermission.runs.result import RunStatus, Verdict
from intermission.sessions.batch import Batch, Purpose
from intermission.sessions.current import CurrentRun
from intermission.sessions.host import Host
from intermission.sessions.records import (
    cancel_requested,
    event_record,
    open_run,
    pending_entry,
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
        self.changes = 0  # records of no run under way that are with the log

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
        records = [self._started(current, run.invocation_id, view, now)]
        message = self._message(current, run.invocation_id, now)
        events = [] if message is None else [message]
        if message is not None:
            records += [] if run.plan is None else run.plan.records(now)
            records.append(event_record(message))
        entries = [open_run(self._key, run.invocation_id, now)]
        if view.left and run.plan is None:
            entries += self._followed(view)
        waiting, answered = current.reindex(self._key, events)
        needs: list[IndexEntry] = []
        if view.position == 0:
            created = session_created(self._key, now)
            records.insert(0, created)
            entries.append(session_entry(self._key, now, created.data["id"]))
        elif view.identity is not None:
            # As many records as it has, another one may have that was made anew under its name.
            needs.append(session_entry(self._key, view.created, view.identity))
        batch = Batch(Purpose.BEGIN, records, current, events, message)
        # What is with the log already is committed before, or this is refused with it.
        self._submit(
            batch,
            claim=True,
            take_over=run.plan is not None and run.plan.take_over,
            expected=view.position + self.changes,
            put=[*entries, *waiting],
            drop=answered,
            needs=needs,
        )

    def _followed(self, view: SessionView) -> Iterator[IndexEntry]:
        """The entries of runs that were left, and are left alone now that a new one begins."""
        for left in view.left:
            yield open_run(self._key, left, view.unfinished[left]["timestamp"], followed=True)

    def _started(self, current: CurrentRun, invocation_id: str, view: SessionView, now: float) -> Record:
        app = self._host.app
        if not app.resumability_config.is_resumable:
            return run_started(invocation_id, now)
        plan, root = current.run.plan, app.root_agent
        if plan is None and root.sub_agents:
            agent = route(root, view.events, current.run.message)
            current.agent_name = None if agent is root else agent.name
        elif plan is not None:
            current.agent_name = plan.agent
        attempt = 0 if plan is None else plan.attempt
        return run_started(invocation_id, now, agent=current.agent_name, tree=describe(root), attempt=attempt)

    def _message(self, current: CurrentRun, invocation_id: str, now: float) -> Event | None:
        """Return the user event, if there is one and plugins are not to see the message before."""
        run = current.run
        current.opened_later = bool(run.message.parts) and bool(
            self._host.app.plugins.hooks("on_user_message_callback")
        )
        if current.opened_later or not (run.message.parts or run.stored_delta):
            return None
        return Event(
            invocation_id=invocation_id,
            author="user",
            timestamp=now,
            content=run.message if run.message.parts else None,
            branch=None if run.plan is None else run.plan.branch,
            actions=EventActions(state_delta=run.stored_delta) if run.state_delta else NO_ACTIONS,
        )

    def append(self, message: Append, current: CurrentRun, verdict: Verdict | None) -> None:
        """Append what a strand asks for; with a verdict, the run ends in the same commit.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        items: list[Item] = [*message.before]
        if message.event is not None:
            items.append(message.event)
        items += message.after
        records, events = _written(items)
        batch = Batch(
            Purpose.EVENT,
            records,
            current,
            events,
            message.event,
            stored=message.stored,
            opening=message.opening,
            token=current.token,
        )
        if verdict is None:
            put, drop = current.reindex(self._key, items)
            self._submit(batch, put=put, drop=drop)
        else:
            self._submit_end(batch, current, verdict, items)

    def end(self, current: CurrentRun, verdict: Verdict, before: Sequence[Item] = ()) -> None:
        """Append a run's end and give the session up.

        Raises:
            Exception: It cannot be written; nothing was.
        """
        records, events = _written(before)
        batch = Batch(Purpose.END, records, current, events, token=current.token)
        self._submit_end(batch, current, verdict, before)

    def change(self, batch: Batch, current: CurrentRun | None, expected: int) -> None:
        """Append records of no run under way; with none under way, to a session that ends at a number.

        Raises:
            Exception: They cannot be written; nothing was.
        """
        holder = current or self.owed
        batch.token = None if holder is None else holder.token
        known = expected if batch.token is None else None
        self._submit(batch, expected=known, put=batch.put, drop=batch.drop)
        self.changes += len(batch.records)

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
        waiting = () if current.pauses is None else current.pauses.calls.values()
        batch.drop = [*self._dropped(current, failed), *(pending_entry(self._key, call) for call in waiting)]
        return batch

    def _submit_end(self, batch: Batch, current: CurrentRun, verdict: Verdict, items: Iterable[Item]) -> None:
        invocation_id = current.run.invocation_id or ""
        now = self._host.services.clock.time()
        records = list(batch.records)
        current.take_in(records)
        if verdict.source is not None:
            records.append(cancel_requested(invocation_id, verdict, now))
        records.append(run_ended(invocation_id, verdict, now, open_calls=current.open_calls))
        batch.purpose = Purpose.END
        batch.records = records
        batch.verdict = verdict
        put, drop = current.reindex(self._key, items, verdict)
        batch.put = [*self._host.notices.entries(self._key, invocation_id, current.token), *put]
        batch.drop = [*self._dropped(current, verdict), *drop]
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
        take_over: bool = False,
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
            take_over=take_over,
            release=release,
            put=put,
            drop=drop,
            needs=needs,
            also=also,
        )


def _written(items: Iterable[Item]) -> tuple[list[Record], list[Event]]:
    """Return the records of what is to be stored, and the events among it."""
    records: list[Record] = []
    events: list[Event] = []
    for item in items:
        if isinstance(item, Record):
            records.append(item)
        else:
            records.append(event_record(item))
            events.append(item)
    return records, events
