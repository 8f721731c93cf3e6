"""`Audience`: who is told what happens in a session: consumers, subscribers and plugins."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from intermission.events import Event
from intermission.kernel.promise import Promise
from intermission.keys import SessionKey
from intermission.runs.event_hooks import EventGate
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import EventStored, RunEnded, RunStarted
from intermission.runs.result import RunResult
from intermission.runs.stream import Own
from intermission.sessions.batch import Batch
from intermission.sessions.current import CurrentRun
from intermission.sessions.host import Host
from intermission_storage import Kind

__all__ = ["Audience"]


class Audience:
    """Who is told what happens in a session.

    Args:
        key: The session.
        host: The runner.
    """

    def __init__(self, key: SessionKey, host: Host) -> None:
        self._key = key
        self._host = host

    def begun(self, run: Lifecycle) -> None:
        """A run's first records are durable."""
        self._host.services.counts.started()
        self._host.notices.watch(run)
        if self._host.topics.wanted(RunStarted):
            begun = RunStarted(self._key.user_id, self._key.session_id, run.invocation_id or "")
            self._host.topics.publish(begun)

    def attend(self, current: CurrentRun) -> None:
        """A run's agent is to begin: if plugins look at events, they do it before anybody is shown them."""
        environment = current.environment
        if environment is not None and not environment.ends_with_event:
            current.gate = EventGate(environment, self._publish)

    def show(self, batch: Batch, current: CurrentRun, stored: Sequence[Event]) -> None:
        """Events are durable: show them, in their order, and answer who waits for one or for all.

        Args:
            batch: With which they came.
            current: Their run.
            stored: The events as they are stored.
        """
        records = [record.data for record in batch.records if record.kind == Kind.EVENT]
        awaited = batch.events[-1] if batch.event is None else batch.event
        for event, data, known in zip(batch.events, records, stored, strict=True):
            waiting = batch.stored if event is awaited else None
            self._show(event.stored_as(known.seq or 0), data, waiting, batch.opening, current)

    def _show(
        self,
        event: Event,
        data: Mapping[str, Any],
        waiting: Promise[Event | None] | None,
        opening: bool,
        current: CurrentRun,
    ) -> None:
        own: Own | None = None
        if not event.is_plain:
            # What a consumer or the agent does to its values reaches nobody else: each has its own.
            own = partial(Event.stored, data, event.seq or 0)
        if opening:
            current.run.begin(event.seq or 0)
        elif current.gate is not None:
            current.gate.put(event, own, waiting)
            return
        else:
            current.run.show_now(event, own)
            if self._host.topics.wanted(EventStored):
                self._publish(event if own is None else own(event.shown))
        if waiting is not None:
            waiting.keep(event)

    def ended(self, run: Lifecycle, result: RunResult, current: CurrentRun | None) -> None:
        """A run has ended; without a `current` one, nothing of it is in the log."""
        self._host.registry.holds.begin(run)
        run.end(result)
        self._host.registry.forget(run)
        if self._host.topics.wanted(RunEnded):
            self._host.topics.publish(RunEnded(self._key.user_id, self._key.session_id, result))
        if current is not None:
            self._host.notices.ended(current, result)

    def _publish(self, event: Event) -> None:
        if self._host.topics.wanted(EventStored):
            self._host.topics.publish(EventStored(self._key.user_id, self._key.session_id, event))
