"""`Strand`: drives an agent's generators, on one worker at a time, and performs what they yield."""

import logging
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import Call, CallModel, CallTools, Emit, Fork, RunAgent, Runnable, promises
from intermission.agents.llm import LlmAgent
from intermission.errors import OverloadedError, UnrequestedCancelError
from intermission.events import Event
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.scope import CancelScope
from intermission.kernel.workers import HELD, Budget
from intermission.runs.ahead import Ahead
from intermission.runs.async_calls import CANCEL_ERRORS, function_call
from intermission.runs.calls import Blocking, OpenCall, Outcome
from intermission.runs.current import CurrentCall
from intermission.runs.environment import Environment
from intermission.runs.fork import Forked, check_depth
from intermission.runs.frames import Frame, frame_in, frame_of, root_frame, stopped_frame
from intermission.runs.hooks import Body, Opening
from intermission.runs.line import Finished, Line, Store
from intermission.runs.model_hooks import has_model_hooks, model_steps
from intermission.runs.result import CancelSource
from intermission.runs.signals import RunOver, RunStopped
from intermission.runs.storing import Stored, Storing
from intermission.runs.together import Together
from intermission.runs.tool_turns import tool_turn
from intermission.runs.work import Piece
from intermission_storage import Record

__all__ = ["Strand"]

logger = logging.getLogger(__name__)


class Strand(Storing):
    """One line of an agent's work: a stack of generators, of which the top one is advanced.

    A worker drives it from effect to effect. While something is being stored it has none, and whichever is
    free goes on with it then. When a blocking call in it is given up, the worker stays with the call, and
    another goes on with the strand: it belongs to whoever took the ticket of its call.

    Args:
        environment: What the strands of a run share.
        agent: The agent at the bottom of the stack.
        context: What that agent knows of the run.
        scope: Cancelled when the strand must end.
        finished: See `Finished`.
        root: Whether the run ends with this strand.

    Attributes:
        begun: The ids of calls whose beginning is in the log.
        stopped: Whether it ended before its time, because a stop was asked for.
    """

    def __init__(
        self,
        environment: Environment,
        agent: Runnable,
        context: AgentContext,
        scope: CancelScope,
        finished: Finished,
        *,
        root: bool = False,
    ) -> None:
        super().__init__(environment, scope)
        self.begun: set[str] = set()
        self.stopped = False
        self._agent = agent
        self._context = context
        self._stack: list[Frame] = []
        self._finished = finished
        self._root = root
        self._piece = Piece("agent", agent.name)
        self._variables = environment.run.context
        self._last: Stored | None = None  # the reply after which a quick root has nothing more to do

    def start(self) -> None:
        """Have a worker drive the strand from its beginning."""
        self.environment.run.work.begin(self._piece)
        self._submit(Outcome(), begin=True)

    def branch(self, agent: Runnable, context: AgentContext, scope: CancelScope, finished: Finished) -> Line:
        """Return a new strand of the same run, for an agent on a branch of its own."""
        return Strand(self.environment, agent, context, scope, finished)

    def resume(self, outcome: Outcome) -> None:
        """Have a worker go on with the outcome of the effect for which `_perform` had none."""
        self._submit(outcome)

    def leave(self) -> None:
        """Have a worker leave the generators: the scope is cancelled."""
        self._leave()

    def _run(self, came: Outcome | Stored, begin: bool = False) -> object:
        """Drive the strand, on a worker; return `HELD` if somebody will have it resumed."""
        while True:
            reply = self._variables.run(self._drive, came, begin)
            # Out of its variables: whoever goes on with it enters them.
            if reply is None:
                return None
            if reply.call_back(partial(self._resume, reply)):
                return HELD
            came, begin = reply, False

    def _resume(self, reply: Stored) -> None:
        workers = self.environment.services.workers
        if reply is self._last and reply.kept:
            # All that is left is to leave a generator in which nothing blocks. No thread is woken for that.
            if self._run(reply) is not HELD:
                workers.end_held()
        else:
            workers.resume(self._run, reply)

    def _drive(self, came: Outcome | Stored, begin: bool) -> Stored | None:
        """Go on with what came of the last effect, until the end or until another worker can go on.

        Returns:
            What the strand waits for; `None` if it has ended, or somebody goes on with it already.
        """
        error: Exception | None = None
        with CurrentCall(self.environment.run, self.scope, self._piece):
            try:
                if begin:
                    self._check()
                    start = root_frame if self._root else frame_of
                    self._stack.append(start(self.environment, self._agent, self._context))
                try:
                    left = self._go_on(came)
                except RunStopped:
                    left = self._go_on_stopped()
                if not isinstance(left, Outcome):
                    return left
            except RunOver:
                self._close()
            except CANCEL_ERRORS as raised:
                # The slot decides whether the run is over, not an exception.
                if not self.scope.cancelled:
                    error = UnrequestedCancelError(f"agent {self._stack[-1].agent.name!r}", raised)
                self._close()
            except Exception as raised:  # noqa: BLE001 - whatever it is, the run must come to an end
                error = raised
            except BaseException as raised:  # noqa: BLE001 - a SystemExit of user code must not end a worker
                error = ActorCrashError.of("user code", raised)
                self._close()
        self._end_storing()
        try:
            self._finished(self, error)
        finally:
            self.environment.run.work.end(self._piece)
        return None

    def _go_on(self, came: Outcome | Stored) -> Outcome | Stored | None:
        """Return an outcome at the end; the reply that it waits for; `None` if another worker has it."""
        while True:
            outcome = came if isinstance(came, Outcome) else self._stored(came)
            effect = self._advance(outcome)
            if effect is None:
                return outcome
            try:
                now = self._perform(effect)
            except Exception as raised:  # noqa: BLE001 - it is the agent's to handle
                now = Outcome(error=raised)
            if now is None or not (isinstance(now, Outcome) or now.answered):
                return now
            came = now

    def _advance(self, outcome: Outcome) -> Any:
        """Return the next effect, or `None` when the stack is empty.

        Raises:
            Exception: What the agents did not handle.
        """
        value, error = outcome
        while self._stack:
            self._check()
            frame = self._stack[-1]
            try:
                if frame.quick and self._ahead is None:
                    return frame.steps.send(value) if error is None else frame.steps.throw(error)
                with self._blocking, nullcontext() if self._ahead is None else self._ahead.seen():
                    return frame.steps.send(value) if error is None else frame.steps.throw(error)
            except StopIteration as stop:
                value, error = stop.value, None
            except Exception as raised:  # noqa: BLE001 - it is for the generator below
                value, error = None, raised
            self._stack.pop()
            try:
                self._settle_ahead()
            except Exception as raised:  # noqa: BLE001 - it is for the generator below
                value, error = None, error or raised
        if error is not None:
            raise error
        return None

    def _check(self) -> None:
        if self.scope.cancelled:
            raise RunOver

    def _check_stop(self) -> None:
        if self.environment.run.stop_requested is not None:
            raise RunStopped

    def _check_agents(self, effect: object, agents: Iterable[object]) -> None:
        for agent in agents:
            if isinstance(agent, type) or not callable(getattr(agent, "run", None)):
                name = self._stack[-1].agent.name
                raise TypeError(f"agent {name!r} yielded {effect!r}, but {agent!r} is no agent")

    def _perform(self, effect: Any) -> Outcome | Stored | None:
        if self._ahead is not None and not self._may_overlap(effect):
            self._settle_ahead()
        asked: object = effect
        kind = type(asked)  # the most frequent ones first; of their subclasses there are few
        if kind is Blocking:
            return self._block(effect)
        if kind is Emit:
            return self._emit(effect)
        match effect:
            case Event():
                return self._emit(Emit(effect))
            case CallModel():
                self._check_stop()
                ahead, self._ahead = self._ahead, None
                top = self._stack[-1]
                return self._push(model_steps(self.environment, effect, top.agent, top.context, ahead))
            case CallTools():
                top = self._stack[-1]
                return self._push(tool_turn(self, effect, top.context, top.agent.name))
            case Emit():
                return self._emit(effect)
            case Store(records):
                return self._store(None, after=records)
            case Ahead():
                return effect
            case Blocking():
                return self._block(effect)
            case Together():
                return effect.suspend()
            case RunAgent(agent):
                self._check_stop()
                self._check_agents(effect, [agent])
                check_depth(self._stack, agent)
                self._stack.append(frame_of(self.environment, agent, self._stack[-1].context))
                return Outcome()
            case Fork(agents):
                self._check_stop()
                self._check_agents(effect, agents)
                with self._blocking:
                    Forked(self, agents, self._stack[-1].context).wait()
                return Outcome()
            case Call(function, args):
                name = getattr(function, "__name__", type(function).__name__)
                return self._block(Blocking(function_call(function, args), "call", name))
            case Body():
                top = self._stack[-1]
                if effect.tail:
                    self._stack.pop().steps.close()
                self._stack.append(frame_in(self.environment, effect, top.context))
                return Outcome()
            case Opening(event):
                return self._store(event, opening=True)
            case _:
                name = self._stack[-1].agent.name
                raise TypeError(f"agent {name!r} yielded {effect!r}, which is no effect")

    def _may_overlap(self, effect: Any) -> bool:
        if not isinstance(effect, CallModel) or self.environment.run.stop_requested is not None:
            return False
        # Hooks see nothing that is not stored.
        return not has_model_hooks(self.environment.plugins, self._stack[-1].agent)

    def _push(self, steps: Any) -> Outcome:
        """Put steps of the runtime's own on the stack; what they return is the effect's answer."""
        top = self._stack[-1]
        self._stack.append(Frame(steps, top.agent, top.context, quick=True))
        return Outcome()

    def _emit(self, effect: Emit) -> Outcome | Stored:
        event = effect.event
        run = self.environment.run
        self.environment.check_event(event, self._stack[-1].agent.name)
        if event.partial:
            run.show(event)
            return Outcome(event)
        event = self.environment.with_changes(event, self._stack[-1].context)
        after: list[Record] = []
        if effect.starts_calls and run.stop_requested is None:
            agent = self._stack[-1].agent
            tools = agent.tools if isinstance(agent, LlmAgent) else {}
            calls = self.environment.at_once(event.function_calls, tools)
            self.begun.update(call.id for call in calls)
            after = [self.environment.call_started(call) for call in calls]
        if effect.calls_model and run.config.overlap_model_calls and run.stop_requested is None:
            return Outcome(self._store_ahead(event))
        top = self._stack[-1]
        root = effect.last and self._root and len(self._stack) == 1
        if not (root and self.environment.ends_with_event and promises(top.steps)):
            return self._store(event, after=after)
        reply = self._store(event, after=after, last=True)
        if top.quick:
            self._last = reply
        return reply

    def _block(self, blocking: Blocking) -> Outcome | None:
        call = OpenCall(
            self.environment.run,
            self.environment.services,
            self.scope,
            blocking,
            go_on=self._submit,
            leave=self._leave,
        )
        with self._blocking:
            return call.perform()

    def _go_on_stopped(self) -> Outcome | Stored | None:
        """Leave the generators; the root strand says in an event of the root's that the run was stopped."""
        self.stopped = True
        top = self._stack[-1]
        self._close()
        if self._root:
            self._stack.append(stopped_frame(self.environment, top, self._context))
        return self._go_on(Outcome())

    def _close(self) -> None:
        while self._stack:
            frame = self._stack.pop()
            try:
                with nullcontext() if frame.quick else self._blocking:
                    frame.steps.close()
            except BaseException:
                logger.exception(
                    "agent %s raised while it was closed", frame.agent.name, extra=self.environment.extra
                )

    def _submit(self, outcome: Outcome, *, begin: bool = False) -> None:
        # The worker that has driven it may still be in the context; what was set in there goes along.
        self._variables = self._variables.copy()
        self.environment.services.workers.submit(
            self._run, outcome, begin, refused=self._refused, cooperative=True
        )

    def _leave(self) -> None:
        self._variables = self._variables.copy()
        self.environment.services.workers.submit(self._run, Outcome(), budget=Budget.LEAVES, cooperative=True)

    def _refused(self) -> None:
        """No worker came: the run ends for lack of one."""
        error = OverloadedError(
            "no worker was free in time, so the run was ended. What was stored before is kept. "
            "Start fewer runs at once, or give the runner more workers."
        )
        self.environment.run.cancel(CancelSource.OVERLOAD, "no worker was free in time", error=error)
        self._leave()
