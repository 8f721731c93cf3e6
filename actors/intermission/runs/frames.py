"""`Frame`: what stands on a strand's stack, with the hooks that there are around it."""

import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from intermission.agents.base import AgentContext
from intermission.agents.effects import Runnable
from intermission.agents.llm import LlmAgent
from intermission.runs.environment import Environment
from intermission.runs.hooks import (
    Body,
    after_run,
    agent_steps,
    has_agent_hooks,
    has_run_steps,
    run_steps,
    stopped_steps,
)
from intermission.tools.function import FunctionTool

__all__ = ["Frame", "frame_in", "frame_of", "part_frame", "paused_frame", "root_frame", "stopped_frame"]

_LLM_STEPS = LlmAgent.run.__code__  # what instruments a program puts something of its own in its place


@dataclass(slots=True)
class Frame:
    """A generator on the stack, and the agent in whose name it yields.

    Attributes:
        quick: Whether it never blocks.
        ends: Whether the agent has come to its end when this has, and that is still to be said.
    """

    steps: Any
    agent: Runnable
    context: AgentContext
    quick: bool
    ends: bool = False


def root_frame(environment: Environment, agent: Runnable, context: AgentContext) -> Frame:
    """Return the frame of a run's root agent, between what there is to do around it.

    Raises:
        TypeError: See `frame_of`.
    """
    if has_run_steps(environment):
        return Frame(run_steps(environment, agent, context), agent, context, quick=True)
    return frame_of(environment, agent, context)


def frame_of(environment: Environment, agent: Runnable, context: AgentContext) -> Frame:
    """Return the frame of an agent, between its hooks.

    Raises:
        TypeError: Its `run` is no generator.
    """
    if has_agent_hooks(environment.plugins, agent):
        return Frame(agent_steps(environment, agent, context), agent, context, quick=True, ends=True)
    return _bare(environment, agent, context, ends=True)


def part_frame(environment: Environment, agent: Runnable, context: AgentContext) -> Frame:
    """Return the frame of an agent that is a part of the one below it on the stack.

    Raises:
        TypeError: See `frame_of`.
    """
    return _bare(environment, agent, context, ends=True)


def frame_in(environment: Environment, body: Body, around: Frame) -> Frame:
    """Return the frame of an agent around which hooks are being called, in the frame of these.

    Raises:
        TypeError: See `frame_of`.
    """
    if body.bare:
        return _bare(environment, body.agent, around.context, ends=body.tail and around.ends)
    return frame_of(environment, body.agent, around.context)


def stopped_frame(environment: Environment, top: Frame, root: AgentContext) -> Frame:
    """Return the frame that ends a run which was stopped while `top` was at work."""
    steps = stopped_steps(environment, top.agent.name, top.context, root)
    return Frame(steps, top.agent, top.context, quick=True)


def paused_frame(environment: Environment, agent: Runnable, root: AgentContext) -> Frame:
    """Return the frame that calls the hooks which come after a run, when that pauses."""
    return Frame(after_run(environment, agent.name, root), agent, root, quick=True)


def _bare(environment: Environment, agent: Runnable, context: AgentContext, *, ends: bool) -> Frame:
    quick = _is_quick(agent)
    with nullcontext() if quick else environment.services.workers.blocking:
        steps: object = agent.run(context)
    if not inspect.isgenerator(steps):
        raise TypeError(
            f"run() of agent {agent.name!r} must be a generator, that is, hold a yield; "
            f"it returned {type(steps).__name__}"
        )
    return Frame(steps, agent, context, quick, ends)


def _is_quick(agent: Runnable) -> bool:
    """Return whether nothing of a user's runs in the agent's generator, which so does not block."""
    return (
        type(agent) is LlmAgent
        and getattr(agent.run, "__code__", None) is _LLM_STEPS
        and agent.output_schema is None
        and all(type(tool) is FunctionTool for tool in agent.tools.values())
    )
