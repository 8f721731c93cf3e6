"""Agents: generators of effects. No thread and no I/O in them."""

from intermission.agents.app import App, ResumabilityConfig
from intermission.agents.base import AgentContext, BaseAgent, CallbackContext
from intermission.agents.control import exit_loop, transfer_to_agent
from intermission.agents.effects import Call, CallModel, CallTools, Emit, Fork, RunAgent
from intermission.agents.llm import LlmAgent

__all__ = [
    "AgentContext",
    "App",
    "BaseAgent",
    "Call",
    "CallModel",
    "CallTools",
    "CallbackContext",
    "Emit",
    "Fork",
    "LlmAgent",
    "ResumabilityConfig",
    "RunAgent",
    "exit_loop",
    "transfer_to_agent",
]
