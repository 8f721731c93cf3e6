"""`SequentialAgent`, `ParallelAgent` and `LoopAgent`: agents that run others in a fixed order."""

from collections.abc import Sequence
from typing import Any

from intermission.agents.base import AgentContext, BaseAgent
from intermission.agents.callback_types import AfterAgentCallback, BeforeAgentCallback
from intermission.agents.callbacks import OneOrMore
from intermission.agents.effects import Ended, Fork, RunAgent, SaveState, Steps
from intermission.agents.progress import SUB_AGENT
from intermission.errors import AgentTreeChangedError

__all__ = ["LoopAgent", "ParallelAgent", "SequentialAgent"]

_ROUND = "times_looped"


class SequentialAgent(BaseAgent):
    """An agent that runs its sub-agents one after another.

    In a resumable app it stores which one is at work, and goes on with that.

    Args:
        name: An identifier; not `"user"`.
        description: What the agent is for, in a line.
        sub_agents: What it runs, in this order.
        before_agent_callback: See `BaseAgent`.
        after_agent_callback: See `BaseAgent`.

    Raises:
        ValueError: See `BaseAgent`.
    """

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`.

        Raises:
            AgentTreeChangedError: The sub-agent that it would go on with is not there.
        """
        if _is_part(self, context):
            yield RunAgent(self, part=True)
            return
        start, going_on = _place(self, context)
        for index in range(start, len(self.sub_agents)):
            agent = self.sub_agents[index]
            if not (going_on and index == start):
                yield SaveState({SUB_AGENT: agent.name})
            yield RunAgent(agent)


class LoopAgent(BaseAgent):
    """An agent that runs its sub-agents one after another, again and again, until one escalates.

    One that escalates, as by the tool `exit_loop`, ends the innermost loop around it, after its event. In a
    resumable app the loop stores which sub-agent is at work, and in which round, and goes on with that.

    Args:
        name: An identifier; not `"user"`.
        description: What the agent is for, in a line.
        sub_agents: What it runs, in this order.
        max_iterations: How many rounds there are at most; `None` for no limit.
        before_agent_callback: See `BaseAgent`.
        after_agent_callback: See `BaseAgent`.

    Raises:
        ValueError: `max_iterations` is below one; or see `BaseAgent`.
    """

    ends_on_escalation = True

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        sub_agents: Sequence[BaseAgent] = (),
        max_iterations: int | None = None,
        before_agent_callback: OneOrMore[BeforeAgentCallback] = None,
        after_agent_callback: OneOrMore[AfterAgentCallback] = None,
    ) -> None:
        if max_iterations is not None and max_iterations < 1:
            raise ValueError(
                f"max_iterations of {name!r} is {max_iterations}: give a number of rounds, or None"
            )
        self.max_iterations = max_iterations
        super().__init__(
            name,
            description=description,
            sub_agents=sub_agents,
            before_agent_callback=before_agent_callback,
            after_agent_callback=after_agent_callback,
        )

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`.

        Raises:
            AgentTreeChangedError: The sub-agent that it would go on with is not there.
        """
        if _is_part(self, context):
            yield RunAgent(self, part=True)
            return
        start, going_on = _place(self, context)
        times = _times(self, context)
        while self.sub_agents and (self.max_iterations is None or times < self.max_iterations):
            for agent in self.sub_agents[start:]:
                if not going_on:
                    yield SaveState({SUB_AGENT: agent.name, _ROUND: times})
                going_on = False
                if (yield RunAgent(agent)) is Ended.ESCALATED:
                    return
            start = 0
            times += 1


class ParallelAgent(BaseAgent):
    """An agent that runs its sub-agents at the same time, each on a branch of its own.

    The branches are named after this agent and theirs. None sees what the others say meanwhile. It ends when
    all have, or one escalates, or one fails, which ends the others. In a resumable app each branch has its
    own checkpoints: one that has ended is not run again.

    Args:
        name: An identifier; not `"user"`.
        description: What the agent is for, in a line.
        sub_agents: What it runs.
        before_agent_callback: See `BaseAgent`.
        after_agent_callback: See `BaseAgent`.

    Raises:
        ValueError: See `BaseAgent`.
    """

    ends_on_escalation = True

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        if _is_part(self, context):
            yield RunAgent(self, part=True)
            return
        if context.saved is None:
            yield SaveState({})
        if self.sub_agents:
            yield Fork(self.sub_agents, name=self.name)


def _is_part(agent: BaseAgent, context: AgentContext) -> bool:
    """Return whether another agent yields from this one, whose place and end are then not told by its own."""
    return context.agent_name not in {"", agent.name}


def _place(agent: BaseAgent, context: AgentContext) -> tuple[int, bool]:
    """Return with which sub-agent a workflow begins, and whether it goes on with that one.

    Raises:
        AgentTreeChangedError: The sub-agent that it would go on with is not there.
    """
    if context.saved is None or SUB_AGENT not in context.saved.state:
        return 0, False
    name: Any = context.saved.state[SUB_AGENT]
    for index, below in enumerate(agent.sub_agents):
        if below.name == name:
            return index, True
    raise AgentTreeChangedError(context.invocation_id, [f"agent {agent.name!r} has no sub-agent {name!r}"])


def _times(agent: BaseAgent, context: AgentContext) -> int:
    """Return how many rounds a loop has done.

    Raises:
        AgentTreeChangedError: What is stored is no number of rounds.
    """
    times: Any = 0 if context.saved is None else context.saved.state.get(_ROUND, 0)
    if isinstance(times, bool) or not isinstance(times, int):
        raise AgentTreeChangedError(
            context.invocation_id, [f"agent {agent.name!r} is no loop that counts its rounds: {times!r}"]
        )
    return times
