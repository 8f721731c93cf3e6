"""`RunOpener`: the part of a session's actor that begins a run, or goes on with one."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pykka

from intermission.agents.compaction import EventsCompactionConfig, is_due
from intermission.agents.continuation import continuation
from intermission.agents.progress import Progress
from intermission.agents.routing import route
from intermission.agents.tree import names_below
from intermission.errors import (
    IntermissionError,
    SessionBusyError,
    SessionClosedError,
    SessionNotFoundError,
)
from intermission.kernel.actor import Actor, ActorCrashError
from intermission.kernel.workers import Budget
from intermission.keys import SessionKey
from intermission.runs.agent_actor import AgentActor
from intermission.runs.environment import Environment
from intermission.runs.lifecycle import Lifecycle
from intermission.runs.messages import Begin, Item
from intermission.runs.result import RunResult, RunStatus, Verdict
from intermission.sessions.audience import Audience
from intermission.sessions.batch import Batch
from intermission.sessions.current import CurrentRun, Phase
from intermission.sessions.host import Host
from intermission.sessions.messages import Loaded
from intermission.sessions.pauses import Pauses, pauses_in
from intermission.sessions.resuming import OPEN, Nothing, plan_of
from intermission.sessions.view import SessionView
from intermission.sessions.writer import SessionWriter
from intermission.state import Scopes
from intermission_storage import (
    Appended,
    ClaimedError,
    ConflictError,
    StorageError,
)

__all__ = ["RunOpener", "exception_of"]

_MAX_ATTEMPTS = 100  # beginnings that others got in before
_LOOK = 0.02  # seconds between two tries to have an answer stored while another process has the session
_PATIENCE = 5.0  # seconds of these tries

_CLOSED = "the runner was closed before this run began; nothing of it was stored"


class RunOpener(Actor):
    """A session's run under way, from its coming to the beginning of its agent.

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
        elif self._is_planned(current, self._view):
            current.phase = Phase.CLAIMING
            self._writer.begin(current, self._view)

    def _is_planned(self, current: CurrentRun, view: SessionView) -> bool:
        """Return whether the run is to begin; one that has nothing to go on with, or must not, ends here."""
        run, app = current.run, self._host.app
        if run.resumption is None:
            if self._pauses:
                self._continue(current, view)
            return True
        try:
            if not view.position:
                raise SessionNotFoundError(self._key.app, self._key.user_id, self._key.session_id)
            planned = plan_of(view, app, run.resumption, run.message, changes=bool(run.stored_delta))
        except IntermissionError as error:
            if self._read_anew(current):
                return False
            self._leave_unwritten(current, run.decide(Verdict(RunStatus.FAILED, error=error)))
            return False
        if isinstance(planned, Nothing):
            if self._read_anew(current):
                return False
            run.invocation_id = planned.invocation_id
            self._current = None
            result = RunResult.without_records(run.decide(Verdict(planned.status)), planned.invocation_id)
            self._audience.ended(run, replace(result, pending=planned.left), None)
            self._next()
            return False
        plan, message = planned
        run.go_on_with(plan, message)
        run.work.is_of(plan.invocation_id)
        if plan.error is not None:
            run.decide(Verdict(RunStatus.FAILED, error=plan.error))
        # What was cancelled was taken out of the index, and comes back.
        status = view.unfinished[plan.invocation_id].get("status")
        was_open = status in OPEN
        current.go_on_from(view.events, plan.invocation_id, status)
        pauses = pauses_in(view).only(lambda call: call.invocation_id == plan.invocation_id)
        current.pause_with(pauses, indexed=was_open)
        return True

    def _read_anew(self, current: CurrentRun) -> bool:
        """Read the session again, unless that was done for this run; return whether it is being read.

        Another process may have asked or answered since, and nothing that is stored would tell.
        """
        if current.fresh:
            return False
        current.phase = Phase.LOADING
        self._view = None
        self._load(current)
        return True

    def _continue(self, current: CurrentRun, view: SessionView) -> None:
        """Find where a new run goes on whose message answers calls, in an app without checkpoints."""
        app, answers = self._host.app, [answer.id for answer in current.run.message.function_responses]
        pauses = Pauses()
        if answers and not app.resumability_config.is_resumable:
            known = pauses_in(view)
            found = current.continuation = continuation(
                app.root_agent, view.events, answers, list(known.calls)
            )
            here = {*answers, *(() if found is None else found.waiting)}
            here |= {known.calls[id].function_call_id for id in here & known.calls.keys()}
            pauses = known.only(lambda call: call.id in here)
        current.pause_with(pauses, indexed=True)

    @property
    def _pauses(self) -> bool:
        config = self._host.app.resumability_config
        return config.is_resumable or config.plain_text_continuation_auto_resume

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
        current.fresh = True
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
        if isinstance(outcome, ClaimedError) and run.verdict is None and self._may_wait(current):
            return
        yields = _status_if_elsewhere(run) if isinstance(outcome, ClaimedError) else None
        if yields is not None:
            self._view = None
            self._leave_unwritten(current, run.decide(Verdict(yields)))
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
        if not current.opened_later:
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

    def _may_wait(self, current: CurrentRun) -> bool:
        """Have an answer wait a little for the process that asked: its run is about to end by that."""
        if current.run.plan is None or not current.run.plan.answers:
            return False
        current.waited_since = current.waited_since or time.monotonic()
        if time.monotonic() - current.waited_since > _PATIENCE:
            return False
        current.phase = Phase.LOADING
        with suppress(RuntimeError):  # the runner is closed
            self._host.services.timer.call_later(_LOOK, partial(self._load, current))
            return True
        return False

    def _run_agent(self, current: CurrentRun) -> None:
        view = self._view
        assert view is not None
        plan, root = current.run.plan, self._host.app.root_agent
        progress = None if plan is None else Progress(view.events, plan.invocation_id, names_below(root))
        branch = None
        if current.continuation is not None:
            agent, branch, places, _ = current.continuation
            progress = Progress.at(places)
        elif self._host.app.resumability_config.is_resumable:
            agent = (root.find_agent(current.agent_name) if current.agent_name else None) or root
        else:
            agent = route(root, view.events, current.run.message)
        current.environment = environment = Environment(
            current.run,
            self._host.services,
            self.actor_ref,
            self._state_of(view),
            view.events,
            self._host.app.plugins,
            view.outcomes,
            view.makings,
            root,
            resumable=self._host.app.resumability_config.is_resumable,
            pauses=self._pauses,
            progress=progress,
            branch=branch,
            compaction=self._compaction(current.run, view),
        )
        if current.run.verdict is not None:
            self._end(current, current.run.verdict)  # it was cancelled in the set-up: no agent starts
            return
        current.phase = Phase.RUNNING
        self._audience.attend(current)
        current.agent = self.system.start(AgentActor, environment, agent)
        self.watch(current.agent)
        current.agent.tell(Begin())

    def _compaction(self, run: Lifecycle, view: SessionView) -> EventsCompactionConfig | None:
        """Return how older events are to be summed up when a run is done; `None` if that is not due."""
        config = self._host.app.events_compaction_config
        if config is None or not is_due(view.events, config.interval, run.invocation_id or ""):
            return None
        return config

    def _state_of(self, view: SessionView) -> Callable[[], Scopes]:
        key, shared = self._key, self._host.shared
        shared.changed((key.user_stream, key.app_stream))  # other processes may have changed it since

        def state() -> Scopes:
            return Scopes(view.state, shared.of(key.user_stream), shared.of(key.app_stream))

        return state

    # What its other half does.

    def _tell_stored(self, batch: Batch, outcome: Appended | StorageError) -> None:
        raise NotImplementedError

    def _end(self, current: CurrentRun, verdict: Verdict, before: Sequence[Item] = ()) -> None:
        raise NotImplementedError

    def _fail(self, current: CurrentRun, error: Exception) -> None:
        raise NotImplementedError

    def _leave_unwritten(self, current: CurrentRun, verdict: Verdict) -> None:
        raise NotImplementedError

    def _end_unwritten(self, run: Lifecycle, verdict: Verdict) -> None:
        raise NotImplementedError


def _status_if_elsewhere(run: Lifecycle) -> RunStatus | None:
    """Return how a run ends whose invocation another process has, if it leaves it to that one."""
    if run.resumption is None:
        return None
    if run.resumption.max_attempts is not None:
        return RunStatus.ELSEWHERE
    sent_again = run.resumption.answers and run.plan is not None and not run.plan.answers
    return RunStatus.COMPLETED if sent_again else None


def exception_of(error: BaseException) -> Exception:
    """Return an `Exception`: a SystemExit of somebody's code must not leave through the caller."""
    return error if isinstance(error, Exception) else ActorCrashError.of("code below the session", error)
