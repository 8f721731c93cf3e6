"""Agents inside one another: how deep, and what there is to run."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps import KEY, app_of
from intermission import AgentContext, AgentDepthError, BaseAgent, Content, Runner, RunStatus
from intermission.agents.effects import Fork, RunAgent, Steps
from intermission.runs.result import RunResult
from intermission_storage import MemoryEventLog

NOTHING: Any = None


class Endless(BaseAgent):
    """Runs another agent, which may be itself, in one of two ways; it says "done" when that has ended."""

    def __init__(self, name: str, *, fork: bool) -> None:
        super().__init__(name)
        self.next: BaseAgent = self
        self.fork = fork

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        if context.events[-1].text == "go":
            yield Fork([self.next]) if self.fork else RunAgent(self.next)
        yield context.event(self.name, content=Content.model("done"))


def tower(height: int, *, fork: bool) -> BaseAgent:
    """That many agents, each of which runs the next one."""
    top: BaseAgent = Talking("last")
    for number in range(height - 1):
        below = Endless(f"a{number}", fork=fork)
        below.next, top = top, below
    return top


class Talking(BaseAgent):
    """Says "done"."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield context.event(self.name, content=Content.model("done"))


@pytest.mark.parametrize("fork", [False, True], ids=["RunAgent", "Fork"])
def test_agents_that_run_one_another_without_an_end_fail_the_run_with_an_error_that_names_them(
    fork: bool,
) -> None:
    ping, pong = Endless("ping", fork=fork), Endless("pong", fork=fork)
    ping.next, pong.next = pong, ping
    with Runner(app_of(ping), log=MemoryEventLog()) as runner:
        error = runner.run(**KEY, message="go").result(60).error
        assert isinstance(error, AgentDepthError)
        assert set(error.agents) == {"ping", "pong"}
        assert len(error.agents) == 101
        assert "ping" in str(error)
        assert len(str(error)) < 300
        assert runner.run(**KEY, message="afterwards").answer(60) == "done"


@pytest.mark.parametrize("fork", [False, True], ids=["RunAgent", "Fork"])
def test_a_hundred_agents_inside_one_another_are_not_too_many(fork: bool) -> None:
    with Runner(app_of(tower(100, fork=fork)), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="go").result(60).status is RunStatus.COMPLETED


class Forking(BaseAgent):
    """Forks agents, as they are given; it says what is wrong with them."""

    def __init__(self, agents: Sequence[BaseAgent]) -> None:
        super().__init__("forking")
        self.agents = agents

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        try:
            yield Fork(self.agents)
        except (TypeError, ValueError) as error:
            yield context.event(self.name, content=Content.model(f"{type(error).__name__}: {error}"))


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (NOTHING, "TypeError: Fork takes a sequence of agents, not None"),
        ("abc", "TypeError: Fork takes a sequence of agents, not 'abc'"),
        ([], "ValueError: Fork has no agents"),
        ([NOTHING], "TypeError: agent 'forking' yielded Fork(agents=[None]), but None is no agent"),
    ],
)
def test_a_fork_of_nothing_is_an_error_at_its_yield_that_says_what_it_takes(agents: Any, said: str) -> None:
    with Runner(app_of(Forking(agents)), log=MemoryEventLog()) as runner:
        result: RunResult = runner.run(**KEY, message="hi").result(60)
    assert result.text.startswith(said)
