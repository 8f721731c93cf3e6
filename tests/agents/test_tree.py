"""Trees of agents."""

from typing import Any

import pytest

from intermission import BaseAgent, LlmAgent
from intermission.testing import ScriptedModel


def agent(name: str, *below: BaseAgent) -> LlmAgent:
    return LlmAgent(name, ScriptedModel(), sub_agents=below)


def test_an_agent_knows_those_below_it_and_the_one_above_it() -> None:
    leaf = agent("leaf")
    middle = BaseAgent("middle", sub_agents=[leaf])
    root = agent("root", middle)

    assert root.sub_agents == (middle,)
    assert (leaf.parent, middle.parent, root.parent) == (middle, root, None)
    assert leaf.root_agent is middle.root_agent is root.root_agent is root


def test_an_agent_is_found_by_its_name_in_the_tree_below_depth_first() -> None:
    first, second = agent("same"), agent("same")
    root = agent("root", agent("a", first), agent("b", second))

    assert root.find_agent("root") is root
    assert root.find_agent("same") is first
    assert root.find_agent("nobody") is None
    assert first.find_agent("root") is None


def test_an_agent_has_one_parent_and_a_second_one_is_refused_by_name() -> None:
    shared, other = agent("shared"), agent("other")
    agent("first", shared)

    with pytest.raises(ValueError, match="'shared' cannot be a sub-agent of 'second': it is one of 'first'"):
        agent("second", other, shared)
    assert other.parent is None


def test_sub_agents_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two sub-agents of 'root' are named 'twin'"):
        agent("root", agent("twin"), agent("twin"))


def test_what_is_no_agent_is_refused_as_a_sub_agent() -> None:
    nothing: Any = "helper"
    with pytest.raises(TypeError, match="must be agents, not 'helper'"):
        agent("root", nothing)


def test_an_agent_that_could_not_be_made_has_taken_nobody_in() -> None:
    leaf = agent("leaf")
    with pytest.raises(ValueError, match="include_contents"):
        LlmAgent("root", ScriptedModel(), sub_agents=[leaf], include_contents="some")
    with pytest.raises(ValueError, match="must be an identifier"):
        agent("user", leaf)
    assert leaf.parent is None


def test_an_agent_that_does_not_call_the_constructor_of_its_base_is_a_tree_by_itself() -> None:
    class Bare(BaseAgent):
        def __init__(self) -> None:
            self.name = "bare"

    assert Bare().sub_agents == ()
    assert Bare().root_agent.parent is None
