"""`SessionActor`: the only writer of its session. Its mailbox puts the runs in a line."""

import logging
import threading
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial

from intermission.agents.app import App
from intermission.agents.base import AgentContext
from intermission.errors import SessionClosedError
from intermission.events import Event, Usage
from intermission.kernel.actor import Actor, ActorCrashError
from intermission.kernel.clock import Clock
from intermission.keys import SessionKey
from intermission.messages import AgentDone, Append, Begin
from intermission.runs.agent_actor import AgentActor
from intermission.runs.lifecycle import Lifecycle, RunOver
from intermission.runs.result import RunResult, RunStatus
from intermission.sessions.messages import EndRun, QueueRun, Retire
from intermission.sessions.records import event_of, event_record, run_ended, run_started
from intermission.sessions.writer import SessionWriter
from intermission_storage import EventLog

__all__ = ["SessionActor"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Current:
    """The run that is under way; `events` are the session's, as the run's agent sees them."""

    run: Lifecycle
    invocation_id: str
    events: list[Event]
    began: float
    text: str = ""
    usage: Usage = field(default_factory=Usage)


class SessionActor(Actor):
    """The actor of one session: idle, or with one run under way and the others waiting in their order.

    Every change of the session is an append that this actor makes; an event is shown after its append.
    """

    def __init__(self, key: SessionKey, app: App, log: EventLog, clock: Clock) -> None:
        super().__init__()
        self._key = key
        self._app = app
        self._clock = clock
        self._writer = SessionWriter(key, log)
        self._current: _Current | None = None
        self._waiting: deque[Lifecycle] = deque()
        self._idle: threading.Event | None = None  # to be set once no run is under way; None: not retired

    def on_receive(self, message: object) -> None:
        """Handle one message. Whatever goes wrong fails the run that it belongs to, never the session."""
        try:
            self._handle(message)
        except BaseException as error:
            logger.exception(
                "session %s could not handle a message", self._key.session_id, extra=self._extra()
            )
            if self._current is not None:
                self._end(self._current, RunStatus.FAILED, error=_exception(error))

    def _handle(self, message: object) -> None:
        match message:
            case QueueRun(run):
                self._queue(run)
            case Append():
                self._append(message)
            case AgentDone(invocation_id, error):
                current = self._current_if(invocation_id)
                if current is not None:
                    self._end(
                        current, RunStatus.COMPLETED if error is None else RunStatus.FAILED, error=error
                    )
            case EndRun(reason):
                if self._current is not None:
                    self._end(self._current, RunStatus.CANCELLED, reason=reason)
            case Retire(idle):
                self._retire(idle)
            case _:
                raise TypeError(f"a session takes no {message!r}")

    def _queue(self, run: Lifecycle) -> None:
        if not run.take():
            return
        if self._current is None:
            self._begin(run)
        else:
            self._waiting.append(run)
            run.admit()

    def _begin(self, run: Lifecycle) -> None:
        invocation_id = f"e-{uuid.uuid4()}"
        try:
            now = self._clock.time()
            message = Event(invocation_id=invocation_id, author="user", timestamp=now, content=run.message)
            beginning = [run_started(invocation_id, now), event_record(message)]
            self._writer.begin(invocation_id, beginning, time=now)
            current = _Current(run, invocation_id, self._writer.events(), now)
        except BaseException as error:  # noqa: BLE001 - it is the run's, and must not end the session
            run.end(RunResult(status=RunStatus.FAILED, error=_exception(error)))
            return
        self._current = current
        run.begin(invocation_id)
        try:
            agent = AgentActor.start(run, self._app.root_agent, self._context(current), self.actor_ref)
        except RuntimeError as error:  # the machine gives no more threads
            self._end(current, RunStatus.FAILED, error=error)
        else:
            agent.tell(Begin())

    def _context(self, current: _Current) -> AgentContext:
        return AgentContext(
            invocation_id=current.invocation_id,
            user_id=self._key.user_id,
            session_id=self._key.session_id,
            config=current.run.config,
            events=current.events,
            clock=self._clock,
        )

    def _append(self, message: Append) -> None:
        current = self._current_if(message.invocation_id)
        if current is None:
            message.stored.fail(RunOver())
            return
        try:
            usage = current.usage + (message.event.usage or Usage())
            record = self._writer.append(event_record(message.event))
            # Each from the record: what the consumer or a tool does to its values reaches nobody else.
            event = replace(event_of(record), shown=message.event.shown)
            current.events.append(event_of(record))
        except BaseException as error:  # noqa: BLE001 - the agent waits for an answer, whatever it is
            message.stored.fail(_exception(error))
            return
        if event.is_final and event.text:
            current.text = event.text
        current.usage = usage
        current.run.show(event)
        message.stored.keep(event)

    def _end(
        self, current: _Current, status: RunStatus, *, reason: str = "", error: Exception | None = None
    ) -> None:
        self._current = None
        last_seq: int | None = None
        try:
            now = self._clock.time()
            record = run_ended(current.invocation_id, status, now, reason=reason, error=error)
            last_seq = self._writer.end(record).seq
        except BaseException as refused:
            logger.exception(
                "the end of run %s could not be stored", current.invocation_id, extra=self._extra()
            )
            status, error = RunStatus.FAILED, error or _exception(refused)
            late = run_ended(current.invocation_id, status, current.began, reason=reason, error=error)
            self._writer.owe(late)
        usage = current.usage
        if status is not RunStatus.COMPLETED:
            usage = replace(usage, complete=False)  # a call that failed or was left has cost tokens too
        current.run.end(
            RunResult(
                status=status,
                text=current.text,
                usage=usage,
                error=error,
                reason=reason,
                invocation_id=current.invocation_id,
                last_seq=last_seq,
                read_events=partial(self._writer.events_of, current.invocation_id),
            )
        )
        self._next()

    def _next(self) -> None:
        while self._current is None and self._waiting:
            self._begin(self._waiting.popleft())
        if self._current is None and self._idle is not None:
            self._idle.set()

    def _retire(self, idle: threading.Event) -> None:
        self._idle = idle
        refused, self._waiting = self._waiting, deque()
        for run in refused:
            error = SessionClosedError(
                "the runner was closed before this run began; nothing of it was stored"
            )
            run.end(RunResult(status=RunStatus.FAILED, error=error))
        self._next()

    def _extra(self) -> dict[str, str]:
        return {"session": self._key.session_id, "user": self._key.user_id}

    def _current_if(self, invocation_id: str) -> _Current | None:
        """The run under way, if it is this one: what comes late from an ended run changes nothing."""
        current = self._current
        return current if current is not None and current.invocation_id == invocation_id else None


def _exception(error: BaseException) -> Exception:
    # A SystemExit of somebody's code must not leave through the caller who reads the run's error.
    return error if isinstance(error, Exception) else ActorCrashError.of("code below the session", error)
