"""`RunKeeper`: the half of a session's actor that keeps the run under way, from its beginning to its end."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pykka

from intermission.agents.routing import route
from intermission.errors import SessionBusyError, SessionClosedError, SessionNotFoundError
from intermission.events import Event, Usage
from intermission.kernel.actor import Actor, ActorCrashError
from intermission.kernel.promise import Promise
from intermission.kernel.ref import ActorDeadError
from intermission.kernel.supervision import Terminated
from intermission.kernel.workers import Budget
from intermission.keys import SessionKey
from intermission.runs.agent_actor import AgentActor
from intermission.runs.environment import Environment
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import AgentDone, Append, Begin
from intermission.runs.result import RunResult, RunStatus, Verdict
from intermission.runs.signals import RunOver
from intermission.sessions.audience import Audience
from intermission.sessions.batch import Batch, Purpose
from intermission.sessions.current import CurrentRun, Phase
from intermission.sessions.ends import abandon, result_of, unwritten
from intermission.sessions.host import Host
from intermission.sessions.messages import Loaded, Stored
from intermission.sessions.view import SessionView
from intermission.sessions.writer import SessionWriter
from intermission.state import Scopes
from intermission_storage import (
    Appended,
    ClaimedError,
    ConflictError,
    Record,
    StaleClaimError,
    StorageError,
)

__all__ = ["RunKeeper", "exception_of"]

logger = logging.getLogger(__name__)

_NO_TOKENS = Usage()
_MAX_ATTEMPTS = 100  # beginnings that others got in before

_CLOSED = "the runner was closed before this run began; nothing of it was stored"


class RunKeeper(Actor):
    """A session's run under way, and what its records have come to.

    Args:
        key: The session.
        host: The runner.
    """

    def __init__(self, key: SessionKey, host: Host) -> None:
        super().__init__()
        self._key = key
        self._host = host
        self._audience = Audience(key, host)
        self._writer = SessionWriter(key, host, self._tell_stored)
        self._view: SessionView | None = None  # None: not read
        self._current: CurrentRun | None = None

    def _next(self) -> None:
        """No run is under way any more; see what there is to do."""
        raise NotImplementedError

    def _take(self, run: Lifecycle) -> None:
        if run.verdict is not None:
            self._end_unwritten(run, run.verdict)
            return
        self._current = current = CurrentRun(run)
        try:
            if self._writer.paying:
                pass  # for a run that was cancelled meanwhile; what comes of it is this one's answer, too
            elif self._writer.owed is not None:
                self._writer.pay()
            else:
                self._load_or_claim(current)
        except BaseException as error:  # noqa: BLE001 - it is the run's, and must not end the session
            self._fail(current, exception_of(error))

    def _load_or_claim(self, current: CurrentRun) -> None:
        if self._view is None:
            self._load(current)
        elif self._view.position == 0 and not self._host.auto_create:
            self._view = None  # somebody else may create it
            error = SessionNotFoundError(self._key.app, self._key.user_id, self._key.session_id)
            self._leave_unwritten(current, current.run.decide(Verdict(RunStatus.FAILED, error=error)))
        else:
            current.phase = Phase.CLAIMING
            self._writer.begin(current, self._view)

    def _load(self, current: CurrentRun) -> None:
        workers = self._host.services.workers

        def load() -> None:
            try:
                with workers.blocking:
                    loaded = Loaded(current, SessionView.load(self._host.log, self._key.stream))
            except BaseException as error:  # noqa: BLE001 - it is the run's, which waits for an answer
                loaded = Loaded(current, None, error)
            with suppress(pykka.ActorDeadError):  # then the run has ended
                self.actor_ref.tell(loaded)

        def refused() -> None:
            with suppress(pykka.ActorDeadError):
                self.actor_ref.tell(Loaded(current, None, SessionClosedError(_CLOSED)))

        workers.submit(load, refused=refused, budget=Budget.RESERVE, cooperative=True)

    def _loaded(self, message: Loaded) -> None:
        current = message.current
        if self._current is not current or current.phase is not Phase.LOADING:
            return  # it was read for a run that has been cancelled meanwhile
        self._view = message.view
        if message.error is not None:
            self._fail(current, exception_of(message.error))
        else:
            self._load_or_claim(current)

    def _begun(self, batch: Batch, current: CurrentRun, outcome: Appended | StorageError) -> None:
        run = current.run
        if self._may_try_again(current, outcome):
            # Read what has changed meanwhile, then try again, unless it was cancelled.
            current.attempts += 1
            current.phase = Phase.LOADING
            if run.verdict is not None:
                self._leave_unwritten(current, run.verdict)
            else:
                self._load(current)
            return
        if isinstance(outcome, StorageError):
            error: Exception = outcome
            if isinstance(outcome, ClaimedError):
                error = SessionBusyError(outcome.owner)
                error.__cause__ = outcome
            self._view = None
            self._leave_unwritten(current, run.verdict or Verdict(RunStatus.FAILED, error=error))
            return
        view = self._view
        assert view is not None
        current.token = outcome.token
        view.take_in(batch.records, outcome.position, batch.event)
        if batch.event is not None:
            run.begin(outcome.position)
        self._audience.begun(run)
        self._run_agent(current)

    def _may_try_again(self, current: CurrentRun, outcome: Appended | StorageError) -> bool:
        if isinstance(outcome, ConflictError):
            return current.attempts < _MAX_ATTEMPTS  # somebody else has appended, or made it anew
        # The actor before this one may have stopped with a run under way, whose end is behind this beginning.
        return (
            isinstance(outcome, ClaimedError)
            and outcome.owner == self._host.log.owner
            and current.attempts == 0
        )

    def _run_agent(self, current: CurrentRun) -> None:
        view = self._view
        assert view is not None
        current.environment = environment = Environment(
            current.run,
            self._host.services,
            self.actor_ref,
            self._state_of(view),
            view.events,
            self._host.app.plugins,
            view.outcomes,
            self._host.app.root_agent,
        )
        if current.run.verdict is not None:
            self._end(current, current.run.verdict)  # it was cancelled in the set-up: no agent starts
            return
        current.phase = Phase.RUNNING
        self._audience.attend(current)
        agent = route(self._host.app.root_agent, view.events)
        current.agent = self.system.start(AgentActor, environment, agent)
        self.watch(current.agent)
        current.agent.tell(Begin())

    def _state_of(self, view: SessionView) -> Callable[[], Scopes]:
        key, shared = self._key, self._host.shared
        shared.changed((key.user_stream, key.app_stream))  # other processes may have changed it since

        def state() -> Scopes:
            return Scopes(view.state, shared.of(key.user_stream), shared.of(key.app_stream))

        return state

    def _agent_gone(self, message: Terminated) -> None:
        """An agent's actor has stopped. If its run has no end yet, nobody else would end it."""
        current = self._current
        if current is None or current.phase is not Phase.RUNNING or current.agent != message.ref:
            return
        error = ActorDeadError(f"the actor of run {current.run.invocation_id} stopped before the run's end")
        error.__cause__ = message.error
        self._end(current, current.run.decide(Verdict(RunStatus.FAILED, error=error)))

    def _paid(self, outcome: Appended | StorageError) -> None:
        """The end that was owed is in the log, or cannot be brought there yet."""
        self._writer.paying = False
        current = self._current
        if not isinstance(outcome, StorageError) or isinstance(outcome, StaleClaimError):
            # Who was taken over owes no more.
            owed, self._writer.owed = self._writer.owed, None
            if owed is not None:
                self._host.notices.end_paid(owed.put)
            self._view = None
            if current is not None and current.phase is Phase.LOADING:
                self._load_or_claim(current)
        elif current is not None and current.phase is Phase.LOADING:
            verdict = current.run.decide(Verdict(RunStatus.FAILED, error=outcome))
            self._leave_unwritten(current, verdict)

    # What the run's strands ask for.

    def _append(self, message: Append) -> None:
        current = self._current
        if current is None or current.run is not message.run or current.phase is not Phase.RUNNING:
            self._answer(message.stored, RunOver())
            return
        verdict: Verdict | None = None
        try:
            if message.event is not None and message.event.usage is not None:
                _ = (
                    current.usage + message.event.usage
                )  # what cannot be summed up is refused before it is stored
            if message.last:
                verdict = current.run.decide(Verdict(RunStatus.COMPLETED))
                if not verdict.finishing:
                    self._answer(message.stored, RunOver())
                    self._end(current, verdict)
                    return
                current.phase = Phase.ENDING
            self._writer.append(message, current, verdict)
        except BaseException as error:  # noqa: BLE001 - the agent waits for an answer, whatever it is
            self._answer(message.stored, exception_of(error))
            if verdict is not None:
                current.phase = Phase.RUNNING
                self._end(current, replace(verdict, status=RunStatus.FAILED, error=exception_of(error)))

    def _agent_done(self, message: AgentDone) -> None:
        current = self._current
        if current is None or current.run is not message.run or current.phase is not Phase.RUNNING:
            return
        if message.error is not None:
            verdict = Verdict(RunStatus.FAILED, error=message.error)
        elif message.stopped is not None:
            verdict = Verdict(RunStatus.STOPPED, reason=message.stopped)
        else:
            verdict = Verdict(RunStatus.COMPLETED)
        self._end(current, current.run.decide(verdict), message.before)

    def _tell_stored(self, batch: Batch, outcome: Appended | StorageError) -> None:
        self.actor_ref.tell(Stored(batch, outcome))

    def _run_stored(self, batch: Batch, outcome: Appended | StorageError) -> None:
        current = batch.current
        assert current is not None
        if batch.purpose is Purpose.EVENT:
            self._event_stored(batch, current, outcome)
        elif batch.purpose is Purpose.BEGIN:
            self._begun(batch, current, outcome)
        else:
            self._end_stored(batch, current, outcome)

    def _event_stored(self, batch: Batch, current: CurrentRun, outcome: Appended | StorageError) -> None:
        if isinstance(outcome, StorageError):
            self._answer(batch.stored, outcome)
            return
        self._show(batch, current, outcome)

    def _show(self, batch: Batch, current: CurrentRun, outcome: Appended) -> None:
        assert self._view is not None
        taken_in = self._view.take_in(batch.records, outcome.position, batch.event)
        current.take_in(batch.records, batch.event)
        event = batch.event
        if event is not None:
            current.usage += event.usage or _NO_TOKENS
            self._audience.show(batch, current, event, taken_in[0].seq or 0)
        elif batch.stored is not None:
            batch.stored.keep(None)

    # The end of a run.

    def _end(self, current: CurrentRun, verdict: Verdict, before: Sequence[Record] = ()) -> None:
        """Give the run's end to the log."""
        current.phase = Phase.ENDING
        try:
            self._writer.end(current, verdict, before)
        except BaseException as error:  # noqa: BLE001 - an end that cannot be written must be told, too
            self._end_refused(self._writer.failed_end(current, verdict, exception_of(error)), current)

    def _end_stored(self, batch: Batch, current: CurrentRun, outcome: Appended | StorageError) -> None:
        verdict = batch.verdict
        assert verdict is not None
        if isinstance(outcome, StorageError):
            self._answer(batch.stored, outcome)
            if isinstance(outcome, StaleClaimError):
                batch.token = None  # another has the session; there is nothing to be paid
            batch.verdict = Verdict(RunStatus.FAILED, reason=verdict.reason, error=verdict.error or outcome)
            self._end_refused(batch, current)
            return
        self._show(batch, current, outcome)
        self._finish(current, verdict, outcome.position)

    def _end_refused(self, batch: Batch, current: CurrentRun) -> None:
        assert batch.verdict is not None
        logger.error(
            "the end of run %s could not be stored",
            current.run.invocation_id,
            exc_info=batch.verdict.error,  # maybe one of the user's, whose text is no part of a line of ours
            extra=self._extra(),
        )
        if batch.token is not None:
            late = self._writer.failed_end(
                current, batch.verdict, batch.verdict.error or StorageError("the log refused the end")
            )
            self._writer.owe(late)
        self._view = None  # what is in the log is not what this actor thinks
        self._finish(current, batch.verdict, None)

    def _finish(self, current: CurrentRun, verdict: Verdict, last_seq: int | None) -> None:
        self._leave(current, result_of(self._host, self._key, current, verdict, last_seq))

    def _leave_unwritten(self, current: CurrentRun, verdict: Verdict) -> None:
        """End a run of which nothing is in the log."""
        self._current = None
        self._end_unwritten(current.run, verdict)
        self._next()

    def _end_unwritten(self, run: Lifecycle, verdict: Verdict) -> None:
        self._audience.ended(run, unwritten(run, verdict), None)

    def _abandon(self, error: Exception) -> None:
        """This actor stops: nothing that comes into its mailbox is seen any more."""
        current, self._current = self._current, None
        if current is not None:
            abandon(self._host, self._key, current, error, self._audience.ended)

    def _leave(self, current: CurrentRun, result: RunResult) -> None:
        self._current = None
        self._audience.ended(current.run, result, current)
        if current.agent is not None:
            self.unwatch(current.agent)
            current.agent.stop_here()
        self._next()

    def _fail(self, current: CurrentRun, error: Exception) -> None:
        """Something went wrong that no run should bring about."""
        if self._current is not current:
            return
        if current.token is not None and current.phase is not Phase.ENDING:
            self._end(current, current.run.decide(Verdict(RunStatus.FAILED, error=error)))
        elif current.token is None:
            self._view = None
            self._leave_unwritten(current, current.run.decide(Verdict(RunStatus.FAILED, error=error)))
        else:
            failed = Verdict(RunStatus.FAILED, error=error)
            self._end_refused(self._writer.failed_end(current, failed, error), current)

    def _answer(self, stored: Promise[Event | None] | None, error: BaseException) -> None:
        if stored is not None:
            stored.fail(error)

    def _extra(self) -> dict[str, str | None]:
        run = None if self._current is None else self._current.run.invocation_id
        return {"session": self._key.session_id, "user": self._key.user_id, "invocation": run}


def exception_of(error: BaseException) -> Exception:
    """Return an `Exception`: a SystemExit of somebody's code must not leave through the caller."""
    return error if isinstance(error, Exception) else ActorCrashError.of("code below the session", error)
