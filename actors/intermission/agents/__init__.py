"""Agents: generators of effects. No thread and no I/O in them."""

from intermission.agents.app import App
from intermission.agents.base import AgentContext, BaseAgent, CallbackContext
from intermission.agents.compaction import EventsCompactionConfig
from intermission.agents.control import exit_loop, transfer_to_agent
from intermission.agents.effects import (
    Call,
    CallModel,
    CallTools,
    Emit,
    Ended,
    Escalate,
    Fork,
    RunAgent,
    SaveState,
)
from intermission.agents.llm import LlmAgent
from intermission.agents.workflows import LoopAgent, ParallelAgent, SequentialAgent

__all__ = [
    "AgentContext",
    "App",
    "BaseAgent",
    "Call",
    "CallModel",
    "CallTools",
    "CallbackContext",
    "Emit",
    "Ended",
    "Escalate",
    "EventsCompactionConfig",
    "Fork",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "RunAgent",
    "SaveState",
    "SequentialAgent",
    "exit_loop",
    "transfer_to_agent",
]
