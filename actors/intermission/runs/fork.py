"""`Forked`: agents that run at the same time, each on a strand and a branch of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from intermission.actions import Actions
from intermission.agents.base import AgentContext
from intermission.agents.effects import Ended, Fork, Runnable
from intermission.errors import AgentDepthError
from intermission.kernel.scope import CancelScope
from intermission.runs.line import Line
from intermission.runs.messages import Item
from intermission.runs.result import CancelSource
from intermission.runs.signals import RunOver, RunPaused, RunStopped
from intermission.runs.together import Latch

__all__ = ["Forked", "check_depth"]

_DEEPEST = 100  # agents inside one another, and forks inside one another: more than any tree has


class _Frame(Protocol):
    @property
    def agent(self) -> Runnable: ...


def check_depth(stack: Sequence[_Frame], agent: Runnable) -> None:
    """Refuse to run one more agent inside the others of a strand, if there are too many.

    Raises:
        AgentDepthError: See there.
    """
    if len(stack) >= _DEEPEST:
        raise AgentDepthError([*(frame.agent.name for frame in stack), agent.name])


class Forked:
    """The strands of one `Fork`. The first that fails ends the others.

    Args:
        parent: The strand that yielded the fork.
        fork: What was yielded.
        agent: The agent that forks.
        context: What that agent knows.

    Raises:
        AgentDepthError: The forks inside one another are too many.
    """

    def __init__(self, parent: Line, fork: Fork, agent: Runnable, context: AgentContext) -> None:
        branches = context.branch.split(".") if context.branch else []
        if len(branches) >= _DEEPEST:
            raise AgentDepthError([*branches, fork.agents[0].name])
        self._parent = parent
        self._error: Exception | None = None
        self._stopped = self._paused = self._escalated = False
        self._owed: list[list[Item]] = []  # what the branches leave to be stored
        self._scopes: list[CancelScope] = []
        self._caught = parent.catches_escalation() or bool(getattr(agent, "ends_on_escalation", False))
        outer = ".".join(filter(None, (context.branch, fork.name)))
        strands = (self._strand(one, context, outer) for one in fork.agents)
        self._strands = [strand for strand in strands if strand is not None]
        self._latch = Latch(len(self._strands), parent.scope)

    def wait(self) -> Ended | None:
        """Run all, and return when all have left, with how they ended.

        Raises:
            RunOver: The parent's scope was cancelled.
            RunStopped: One of them was stopped.
            RunPaused: One of them waits for an answer from outside.
            Exception: The first error of one.
        """
        if not self._strands:
            return None  # all had ended before the run was gone on with
        for strand in self._strands:
            strand.start()
        self._latch.wait()
        if self._parent.scope.cancelled:
            raise RunOver
        for scope in self._scopes:
            scope.close()
        for owed in self._owed:
            self._parent.owed += owed
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise RunStopped
        if self._escalated:
            return Ended.ESCALATED
        if self._paused:
            raise RunPaused
        return None

    def _strand(self, agent: Runnable, context: AgentContext, outer: str) -> Line | None:
        environment = self._parent.environment
        name = f"{outer}.{agent.name}" if outer else agent.name
        known = environment.inner(agent, replace(context, branch=name))
        if known is None:
            return None
        scope = CancelScope.child_of(self._parent.scope)
        self._scopes.append(scope)
        branch = replace(known, state=environment.new_state(), actions=Actions(), cancellation=scope)
        return self._parent.branch(agent, branch, scope, self._finished, caught=self._caught)

    def _finished(self, strand: Line, error: Exception | None) -> None:
        if error is not None and self._error is None:
            self._error = error
            self._end_others(strand, f"a sibling failed: {error}", CancelSource.SIBLING_FAILURE)
        if strand.escalated and not self._escalated:
            self._escalated = True
            self._end_others(strand, "a sibling escalated", None)
        self._stopped = self._stopped or strand.stopped
        self._paused = self._paused or strand.paused
        self._owed.append(strand.owed)
        self._latch.arrive()

    def _end_others(self, strand: Line, reason: str, source: CancelSource | None) -> None:
        for scope in self._scopes:
            if scope is not strand.scope:
                scope.cancel(reason, source=source)
