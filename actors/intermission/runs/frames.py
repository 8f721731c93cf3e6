"""`Frame`: what stands on a strand's stack, with the hooks that there are around it."""

import inspect
from dataclasses import dataclass
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import Runnable
from intermission.runs.environment import Environment
from intermission.runs.hooks import (
    Body,
    agent_steps,
    has_agent_hooks,
    has_run_hooks,
    run_steps,
    stopped_steps,
)

__all__ = ["Frame", "frame_in", "frame_of", "root_frame", "stopped_frame"]


@dataclass(slots=True)
class Frame:
    """A generator on the stack, and the agent in whose name it yields."""

    steps: Any
    agent: Runnable
    context: AgentContext


def root_frame(environment: Environment, agent: Runnable, context: AgentContext) -> Frame:
    """Return the frame of a run's root agent, between the hooks of the run.

    Raises:
        TypeError: See `frame_of`.
    """
    if has_run_hooks(environment.plugins):
        return Frame(run_steps(environment, agent, context), agent, context)
    return frame_of(environment, agent, context)


def frame_of(environment: Environment, agent: Runnable, context: AgentContext) -> Frame:
    """Return the frame of an agent, between its hooks.

    Raises:
        TypeError: Its `run` is no generator.
    """
    if has_agent_hooks(environment.plugins, agent):
        return Frame(agent_steps(environment, agent, context), agent, context)
    return _bare(agent, context)


def frame_in(environment: Environment, body: Body, context: AgentContext) -> Frame:
    """Return the frame of an agent around which hooks are being called.

    Raises:
        TypeError: See `frame_of`.
    """
    return _bare(body.agent, context) if body.bare else frame_of(environment, body.agent, context)


def stopped_frame(environment: Environment, top: Frame, root: AgentContext) -> Frame:
    """Return the frame that ends a run which was stopped while `top` was at work."""
    return Frame(stopped_steps(environment, top.agent.name, top.context, root), top.agent, top.context)


def _bare(agent: Runnable, context: AgentContext) -> Frame:
    steps: object = agent.run(context)
    if not inspect.isgenerator(steps):
        raise TypeError(
            f"run() of agent {agent.name!r} must be a generator, that is, hold a yield; "
            f"it returned {type(steps).__name__}"
        )
    return Frame(steps, agent, context)
