"""`Audience`: who is told what happens in a session: consumers, subscribers and plugins."""

from functools import partial

from intermission.events import Event
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

    def show(self, batch: Batch, current: CurrentRun, event: Event, seq: int) -> None:
        """An event is durable: show it, and answer who waits for it."""
        event = event.stored_as(seq)
        own: Own | None = None
        if not event.is_plain:
            # What a consumer or the agent does to its values reaches nobody else: each has its own.
            data = next(record.data for record in batch.records if record.kind == Kind.EVENT)
            own = partial(Event.stored, data, seq)
        if batch.opening:
            current.run.begin(seq)
        elif current.gate is not None:
            current.gate.put(event, own, batch.stored)
            return
        else:
            current.run.show_now(event, own)
            if self._host.topics.wanted(EventStored):
                self._publish(event if own is None else own(event.shown))
        if batch.stored is not None:
            batch.stored.keep(event)

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
