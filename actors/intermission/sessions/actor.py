"""`SessionActor`: the only writer of its session. Its mailbox puts the runs in a line."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from intermission.errors import SessionBusyError, SessionClosedError
from intermission.kernel.ref import ActorDeadError
from intermission.kernel.supervision import Terminated
from intermission.kernel.workers import Budget
from intermission.keys import SessionKey
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import AgentDone, Append
from intermission.runs.result import CancelSource, RunStatus, Verdict
from intermission.sessions.batch import Batch, Purpose
from intermission.sessions.current import Phase
from intermission.sessions.host import Host
from intermission.sessions.messages import (
    Delete,
    Deleted,
    EndDelivered,
    EndLeft,
    Forget,
    HoldOver,
    Loaded,
    LookAtSlot,
    Passivate,
    QueueRun,
    Retire,
    SetState,
    Stored,
)
from intermission.sessions.records import run_end_delivered, state_set
from intermission.sessions.run_keeper import RunKeeper
from intermission.sessions.run_opener import exception_of
from intermission_storage import Appended, ClaimedError, ConflictError, StorageError

__all__ = ["SessionActor"]

logger = logging.getLogger(__name__)

_RUNNER_CLOSED = "the runner was closed before this run began; nothing of it was stored"
_STOPPED = "the session was stopped before the run's end; what was stored before is kept"
_FAILED = "the session's actor failed, so the run was ended; what was stored before is kept"
_SESSION_CLOSED = "the session was deleted before this run began; nothing of it was stored"


class SessionActor(RunKeeper):
    """The actor of one session: idle, or with one run under way and the others waiting in their order.

    Every change of the session is a batch that this actor gives to the log; an event is shown after its
    commit. The actor never waits: what blocks is done by workers, and the log answers with a message.
    """

    def __init__(self, key: SessionKey, host: Host) -> None:
        super().__init__(key, host)
        self._waiting: deque[Lifecycle] | None = None
        self._retiring: list[Retire] = []  # a close may come inside another, in a signal handler
        self._delete: Delete | None = None
        self._changes = 0  # batches of no run that are with the log
        self._later: list[SetState | EndDelivered | EndLeft] | None = None
        self._moving = False

    def on_receive(self, message: object) -> None:
        """Handle one message. Whatever goes wrong fails the run that it belongs to, never the session."""
        try:
            self._handle(message)
        except BaseException as error:
            logger.exception(
                "session %s could not handle a message", self._key.session_id, extra=self._extra()
            )
            if self._current is not None:
                self._fail(self._current, exception_of(error))
            else:
                self._next()

    def on_stop(self) -> None:
        """Leave nobody waiting, however the actor came to its end."""
        self._leave_all(SessionClosedError(_STOPPED))

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """As `on_stop`: the directory makes another actor of the session, which begins from the log."""
        error = ActorDeadError(_FAILED)
        error.__cause__ = exception_value
        self._leave_all(error)

    def _leave_all(self, error: Exception) -> None:
        try:
            if self._writer.owed is not None and not self._writer.paying:
                self._writer.pay()  # the last try: the next actor does not know of it
        except Exception:
            logger.exception("the end of a run could not be stored", extra=self._extra())
        try:
            self._abandon(error)
        finally:
            self._refuse_waiting(error)
            self._host.registry.lost(self._key, self.actor_ref)
            self._tell_retired()

    def _handle(self, message: object) -> None:
        handler = self._HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"a session takes no {message!r}")
        handler(self, message)

    def _retire(self, message: Retire) -> None:
        self._retiring.append(message)
        self._refuse_waiting(SessionClosedError(_RUNNER_CLOSED))
        self._next()

    def _tell_retired(self) -> None:
        for message in self._retiring:
            message.idle()

    def _passivate(self, _: Passivate) -> None:
        if not self._is_idle():
            return
        if self._host.registry.leave(self._key, unless=self._has_mail):
            self.stop()
        else:
            self._tell_idle()  # it has to go when that mail is done

    def _forget(self, _: Forget) -> None:
        if self._is_idle():
            self._view = None

    def _queue(self, message: QueueRun) -> None:
        run = message.run
        if not run.take():
            # It was handed over twice, or ended before it came.
            if run not in (self._waiting or ()):
                self._host.registry.left_queue(run)
            if run.result is not None:
                self._host.registry.forget(run)
            self._next()
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(run)
        if self._retiring:
            self._refuse_waiting(SessionClosedError(_RUNNER_CLOSED))
        elif self._delete is not None:
            self._refuse_waiting(SessionClosedError(_SESSION_CLOSED))
        else:
            if self._current is not None or self._is_held():
                run.admit()
            self._next()

    def _is_held(self) -> bool:
        return self._host.registry.holds.holds(self._key)

    def _hold_over(self, _: HoldOver) -> None:
        self._next()

    def _next(self) -> None:
        if self._moving:
            return  # a run that ends as soon as it is taken is followed by the loop below, and not inside it
        self._moving = True
        try:
            while self._current is None and self._waiting and not self._is_held():
                run = self._waiting.popleft()
                self._host.registry.left_queue(run)
                self._take(run)
        finally:
            self._moving = False
        self._change_now()
        if self._current is not None or self._changes:
            return
        if self._delete is not None:
            self._delete_now(self._delete)
        elif self._retiring:
            self._tell_retired()
        elif not self._waiting:
            self._waiting = None
            self._tell_idle()

    def _look_at_slot(self, message: LookAtSlot) -> None:
        run = message.run
        verdict = run.verdict
        if verdict is None:
            return
        current = self._current
        if current is not None and current.run is run:
            if current.phase is Phase.RUNNING:
                self._end(current, verdict)
            elif current.phase is Phase.LOADING:
                self._leave_unwritten(current, verdict)
        elif self._waiting and run in self._waiting:
            self._waiting.remove(run)
            self._host.registry.left_queue(run)
            self._end_unwritten(run, verdict)
        elif run.take():
            # This has overtaken the run, which finds itself taken when it comes, if it comes.
            self._host.registry.left_queue(run)
            self._end_unwritten(run, verdict)
            self._next()

    def _stored(self, message: Stored) -> None:
        batch, outcome = message.batch, message.outcome
        if batch.purpose is Purpose.STATE:
            self._state_stored(batch, outcome)
        elif batch.purpose is Purpose.OWED_END:
            self._paid(outcome)
        else:
            self._run_stored(batch, outcome)
        self._change_now()

    def _refuse_waiting(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        for run in waiting or ():
            self._host.registry.left_queue(run)
            verdict = run.decide(Verdict(RunStatus.FAILED, error=error))
            self._end_unwritten(run, verdict)

    def _is_idle(self) -> bool:
        return not (self._current or self._waiting or self._changes or self._delete or self._writer.owed)

    def _tell_idle(self) -> None:
        self._host.registry.idle(self._key, 0 if self._view is None else len(self._view.events))

    def _has_mail(self) -> bool:
        return not self.actor_inbox.empty()

    # Changes from outside of all runs.

    def _change(self, message: SetState | EndDelivered | EndLeft) -> None:
        if self._delete is not None:
            message.done(SessionClosedError("the session is being deleted; it was not changed"))
            return
        if self._current is not None and self._current.phase is not Phase.RUNNING:
            self._later = [*(self._later or ()), message]  # it is just being claimed or given up
            return
        batch, now = Batch(Purpose.STATE, [], done=message.done), self._host.services.clock.time()
        try:
            if isinstance(message, SetState):
                batch.records = [state_set(message.delta, now)]
            elif isinstance(message, EndDelivered):
                batch.records, batch.drop = [run_end_delivered(message.invocation_id, now)], [message.entry]
            else:
                self._check_left(message)
                batch.records, batch.put, batch.drop = message.records, message.put, message.drop
            self._writer.change(batch, self._current, message.position)
        except BaseException as error:  # noqa: BLE001 - whoever asked waits for the answer
            message.done(error)
            self._next()
        else:
            self._changes += 1

    def _check_left(self, message: EndLeft) -> None:
        if self._current is not None and self._current.run.invocation_id == message.invocation_id:
            position = 0 if self._view is None else self._view.position
            raise ConflictError(self._key.stream, expected=message.position, actual=position)

    def _change_now(self) -> None:
        if self._current is None or self._current.phase is Phase.RUNNING:
            later, self._later = self._later, None
            for message in later or ():
                self._change(message)

    def _state_stored(self, batch: Batch, outcome: Appended | StorageError) -> None:
        assert batch.done is not None
        self._changes -= 1
        self._writer.changes -= len(batch.records)
        if isinstance(outcome, ClaimedError):
            batch.done(SessionBusyError(outcome.owner))
        elif isinstance(outcome, StorageError):
            batch.done(outcome)
        else:
            # Somebody else may have appended before it, if no run is under way.
            if self._view is not None and self._view.position == outcome.position - len(batch.records):
                self._view.take_in(batch.records, outcome.position)
            elif self._current is None:
                self._view = None
            batch.done(None)
        self._next()

    def _begin_delete(self, message: Delete) -> None:
        if self._delete is not None:
            message.done(SessionClosedError("the session is being deleted already"))
            return
        self._delete = message
        self._refuse_waiting(SessionClosedError(_SESSION_CLOSED))
        if self._current is not None:
            self._current.run.cancel(CancelSource.ADMIN, "the session was deleted")
            self._look_at_slot(LookAtSlot(self._current.run))
        self._next()

    def _delete_now(self, message: Delete) -> None:
        def delete() -> None:
            outcome: bool | BaseException
            try:
                outcome = self._host.log.delete(self._key.stream, token=token, take_over=message.take_over)
            except ClaimedError as error:
                outcome = SessionBusyError(error.owner)
            except BaseException as error:  # noqa: BLE001 - whoever asked waits for the answer
                outcome = error
            self.actor_ref.tell(Deleted(outcome))

        def refused() -> None:
            self.actor_ref.tell(Deleted(SessionClosedError("the runner was closed; nothing was deleted")))

        # An end that is owed keeps its claim, which goes with the session.
        owed = self._writer.owed
        token = None if owed is None else owed.token
        self._changes += 1
        self._host.services.workers.submit(delete, refused=refused, budget=Budget.RESERVE)

    def _end_delete(self, deleted: Deleted) -> None:
        assert self._delete is not None
        message, self._view = self._delete, None
        # From here on the name is free: who comes next finds another actor, and who came before is refused.
        self._host.registry.leave(self._key, unless=bool)
        self._host.registry.holds.drop(self._key)
        self._writer.owed = None
        message.done(deleted.outcome)
        self._tell_retired()
        self.stop()

    # Asked by type: a `match` over so many classes takes longer than most of them take to be handled.
    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Append: RunKeeper._append,
        Stored: _stored,
        AgentDone: RunKeeper._agent_done,
        QueueRun: _queue,
        LookAtSlot: _look_at_slot,
        Loaded: RunKeeper._loaded,
        Terminated: RunKeeper._agent_gone,
        SetState: _change,
        EndDelivered: _change,
        EndLeft: _change,
        Passivate: _passivate,
        Forget: _forget,
        HoldOver: _hold_over,
        Retire: _retire,
        Delete: _begin_delete,
        Deleted: _end_delete,
    }
