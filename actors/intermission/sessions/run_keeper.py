"""`RunKeeper`: the half of a session's actor that keeps the run under way, to its end."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from intermission.events import Event, Usage
from intermission.kernel.promise import Promise
from intermission.kernel.ref import ActorDeadError
from intermission.kernel.supervision import Terminated
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import AgentDone, Append, Item
from intermission.runs.result import RunResult, RunStatus, Verdict
from intermission.runs.signals import RunOver
from intermission.sessions.batch import Batch, Purpose
from intermission.sessions.current import CurrentRun, Phase
from intermission.sessions.ends import abandon, result_of, unwritten
from intermission.sessions.messages import Stored
from intermission.sessions.run_opener import RunOpener, exception_of
from intermission_storage import (
    Appended,
    StaleClaimError,
    StorageError,
)

__all__ = ["RunKeeper"]

logger = logging.getLogger(__name__)

_NO_TOKENS = Usage()


class RunKeeper(RunOpener):
    """A session's run under way, and what its records have come to."""

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
            # Who escalated may have left calls behind that nobody waits for.
            paused = message.paused and current.waits(message.before)
            verdict = Verdict(RunStatus.PAUSED if paused else RunStatus.COMPLETED)
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
        events = batch.events
        known = events[0] if len(events) == 1 else None
        taken_in = self._view.take_in(batch.records, outcome.position, known)
        current.take_in(batch.records, events)
        for event in events:
            current.usage += event.usage or _NO_TOKENS
        if events:
            self._audience.show(batch, current, taken_in)
        elif batch.stored is not None:
            batch.stored.keep(None)

    # The end of a run.

    def _end(self, current: CurrentRun, verdict: Verdict, before: Sequence[Item] = ()) -> None:
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
