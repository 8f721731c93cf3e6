"""What an app's agents are, as a run keeps it: to tell later whether the app is still the same. Pure."""

from collections.abc import Mapping
from typing import Any

from intermission.agents.base import BaseAgent
from intermission.agents.llm import LlmAgent
from intermission.agents.workflows import LoopAgent, SequentialAgent

__all__ = ["describe", "missing", "names_below"]


def describe(agent: BaseAgent) -> dict[str, Any]:
    """Return an agent's tree as plain values: names, tools, and whether the order of sub-agents counts."""
    data: dict[str, Any] = {"name": agent.name}
    if isinstance(agent, LlmAgent) and agent.tools:
        data["tools"] = list(agent.tools)
    if agent.sub_agents:
        data["agents"] = [describe(one) for one in agent.sub_agents]
        if isinstance(agent, SequentialAgent | LoopAgent):
            data["ordered"] = True
    return data


def missing(described: Mapping[str, Any], root: BaseAgent) -> list[str]:
    """Return what there was in a tree and is not in another one, each in a few words. More may be there."""
    found: list[str] = []
    if described["name"] == root.name:
        _compare(described, root, found)
    else:
        found.append(f"agent {described['name']!r} is not there")
    return found


def _compare(described: Mapping[str, Any], agent: BaseAgent, found: list[str]) -> None:
    tools = agent.tools if isinstance(agent, LlmAgent) else {}
    for name in described.get("tools", ()):
        if name not in tools:
            found.append(f"agent {agent.name!r} has no tool {name!r}")
    names = [one.name for one in agent.sub_agents]
    before = [one["name"] for one in described.get("agents", ())]
    kept = [name for name in before if name in names]
    if described.get("ordered") and kept != [name for name in names if name in before]:
        found.append(f"the sub-agents of {agent.name!r} stand in another order than {before}")
    for one in described.get("agents", ()):
        if one["name"] in names:
            _compare(one, agent.sub_agents[names.index(one["name"])], found)
        else:
            found.append(f"agent {agent.name!r} has no sub-agent {one['name']!r}")


def names_below(agent: BaseAgent) -> dict[str, frozenset[str]]:
    """Return the names of all agents below each agent of a tree, by its name."""
    found: dict[str, frozenset[str]] = {}
    for one in agent.sub_agents:
        for name, names in names_below(one).items():
            found[name] = found.get(name, frozenset()) | names
        found[agent.name] = found.get(agent.name, frozenset()) | {one.name} | found[one.name]
    found.setdefault(agent.name, frozenset())
    return found
