"""`Forked`: agents that run at the same time, each on a strand and a branch of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from intermission.actions import Actions
from intermission.agents.base import AgentContext
from intermission.agents.effects import Runnable
from intermission.errors import AgentDepthError
from intermission.kernel.scope import CancelScope
from intermission.runs.line import Line
from intermission.runs.result import CancelSource
from intermission.runs.signals import RunOver, RunStopped
from intermission.runs.together import Latch
from intermission_storage import Record

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
        agents: What runs.
        context: What the forking agent knows.

    Raises:
        AgentDepthError: The forks inside one another are too many.
    """

    def __init__(self, parent: Line, agents: Sequence[Runnable], context: AgentContext) -> None:
        branches = context.branch.split(".") if context.branch else []
        if len(branches) >= _DEEPEST:
            raise AgentDepthError([*branches, agents[0].name])
        self._parent = parent
        self._error: Exception | None = None
        self._stopped = False
        self._owed: list[list[Record]] = []  # what the branches leave to be stored
        self._latch = Latch(len(agents), parent.scope)
        self._scopes: list[CancelScope] = []
        self._strands = [self._strand(agent, context) for agent in agents]

    def wait(self) -> None:
        """Run all, and return when all have left.

        Raises:
            RunOver: The parent's scope was cancelled.
            RunStopped: One of them was stopped.
            Exception: The first error of one.
        """
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

    def _strand(self, agent: Runnable, context: AgentContext) -> Line:
        scope = CancelScope.child_of(self._parent.scope)
        self._scopes.append(scope)
        name = f"{context.branch}.{agent.name}" if context.branch else agent.name
        environment = self._parent.environment
        state = environment.new_state()
        branch = replace(context, branch=name, state=state, actions=Actions(), cancellation=scope)
        return self._parent.branch(agent, branch, scope, self._finished)

    def _finished(self, strand: Line, error: Exception | None) -> None:
        if error is not None and self._error is None:
            self._error = error
            for scope in self._scopes:
                if scope is not strand.scope:
                    scope.cancel(f"a sibling failed: {error}", source=CancelSource.SIBLING_FAILURE)
        self._stopped = self._stopped or strand.stopped
        self._owed.append(strand.owed)
        self._latch.arrive()
