"""`Strand`: drives an agent's generators, on one worker at a time."""

from contextlib import nullcontext
from functools import partial
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import Runnable
from intermission.errors import OverloadedError, UnrequestedCancelError
from intermission.kernel.actor import ActorCrashError
from intermission.kernel.scope import CancelScope
from intermission.kernel.workers import HELD, Budget
from intermission.runs.async_calls import CANCEL_ERRORS
from intermission.runs.calls import Outcome
from intermission.runs.current import CurrentCall
from intermission.runs.environment import Environment
from intermission.runs.frames import frame_of, paused_frame, root_frame, stopped_frame
from intermission.runs.line import Finished, Line
from intermission.runs.performer import Performer
from intermission.runs.result import CancelSource
from intermission.runs.signals import RunOver, RunPaused, RunStopped
from intermission.runs.storing import Stored
from intermission.runs.work import Piece

__all__ = ["Strand"]


class Strand(Performer):
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
        caught: Whether an agent that has forked ends when one here escalates.
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
        caught: bool = False,
    ) -> None:
        super().__init__(environment, scope, root=root, caught=caught)
        self._agent = agent
        self._context = context
        self._finished = finished
        self._piece = Piece("agent", agent.name)
        self._variables = environment.run.context

    def start(self) -> None:
        """Have a worker drive the strand from its beginning."""
        self.environment.run.work.begin(self._piece)
        self._submit(Outcome(), begin=True)

    def branch(
        self, agent: Runnable, context: AgentContext, scope: CancelScope, finished: Finished, *, caught: bool
    ) -> Line:
        """Return a new strand of the same run, for an agent on a branch of its own."""
        return Strand(self.environment, agent, context, scope, finished, caught=caught)

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
                except RunPaused:
                    left = self._go_on_paused()
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
            if self._escalates:
                outcome = self._escalate(outcome)
            effect = self._advance(outcome)
            if effect is None:
                if not self._root or self.environment.ends_with_event or not self.owes_events:
                    return outcome
                came = self._store(None)  # nobody looks at what is stored with the end of the run
                if not came.answered:
                    return came
                continue
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
            frame = self._stack.pop()
            if frame.ends and error is None and self.environment.resumable:
                self.owed.append(self._end_of(frame))
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

    def _go_on_stopped(self) -> Outcome | Stored | None:
        """Leave the generators; the root strand says in an event of the root's that the run was stopped."""
        self.stopped = True
        top = self._stack[-1]
        self._close()
        if self._root:
            self._stack.append(stopped_frame(self.environment, top, self._context))
        return self._go_on(Outcome())

    def _go_on_paused(self) -> Outcome | Stored | None:
        """Leave the generators; where the run ends, the hooks that come after it are called."""
        if self.environment.run.stop_requested is not None:
            return self._go_on_stopped()
        self.paused = True
        self._close()
        if self._root and not self.environment.pauses_with_end:
            self._stack.append(paused_frame(self.environment, self._agent, self._context))
        return self._go_on(Outcome())

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
