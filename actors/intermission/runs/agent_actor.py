"""`AgentActor`: the mailbox of one run. It starts the run's strand, and takes stops and pills at once."""

from contextlib import suppress

from intermission.agents.base import BaseAgent
from intermission.kernel.actor import Actor
from intermission.messages import PoisonPill, Stop
from intermission.runs.environment import Environment
from intermission.runs.line import Line
from intermission.runs.messages import AgentDone, Begin
from intermission.runs.result import CancelSource, RunStatus
from intermission.runs.signals import RunOver
from intermission.runs.strand import Strand

__all__ = ["AgentActor"]

_WITH_EVENT = (RunStatus.COMPLETED, RunStatus.PAUSED)


class AgentActor(Actor):
    """The actor of one run, from its durable beginning to its end.

    It holds no thread and drives nothing: workers drive the strands, and the run's scope reaches all of
    them, so whatever arrives here is done at once, however busy the agent is.
    """

    def __init__(self, environment: Environment, agent: BaseAgent) -> None:
        super().__init__()
        self._environment = environment
        self._agent = agent

    def on_receive(self, message: object) -> None:
        """Handle `Begin`, `Stop` and `PoisonPill`."""
        run = self._environment.run
        if type(message) is Begin:
            environment = self._environment
            context = environment.inner(self._agent, environment.context())
            if context is None:  # it had come to its end; only that of the run was missing
                environment.tell(AgentDone(run))
                return
            Strand(environment, self._agent, context, environment.scope, self._finished, root=True).start()
            return
        match message:
            case Stop(reason, invocation_id) if invocation_id in {None, run.invocation_id}:
                run.request_stop(reason)
            case PoisonPill(reason, invocation_id) if invocation_id in {None, run.invocation_id}:
                run.cancel(CancelSource.ADMIN, reason)
            case Stop() | PoisonPill():
                pass  # for another run: a late one must not hit this
            case _:
                raise TypeError(f"an agent actor takes Begin, Stop or PoisonPill, not {message!r}")

    def _finished(self, strand: Line, error: Exception | None) -> None:
        run = self._environment.run
        stopped = (run.stop_requested or "") if strand.stopped else None
        scope = self._environment.scope
        if error is None and scope.cancelled and run.verdict is None:
            run.cancel(CancelSource.CALLER, scope.reason)  # by the agent, which was given the run's scope
        if error is None and run.verdict is not None and run.verdict.status in _WITH_EVENT:
            return  # by the last event, which the session has stored with the end
        with suppress(RunOver):  # the session has ended the run already, and knows all that there is to know
            self._environment.tell(AgentDone(run, error, stopped, strand.owed, strand.paused))
