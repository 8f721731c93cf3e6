"""Agents of one's own in runs that pause: what they keep, and how they go on."""

from typing import Any

import pytest

from apps import KEY, app_of
from intermission import (
    AgentContext,
    BaseAgent,
    CallbackContext,
    Content,
    LoopAgent,
    ParallelAgent,
    Runner,
    RunStatus,
    SequentialAgent,
    exit_loop,
)
from intermission.agents.effects import Call, Fork, RunAgent, SaveState, Steps
from intermission.testing import Gate, calls
from intermission_storage import MemoryEventLog
from pausing import PATIENCE, WAIT, Story, asked, asking, llm, shown, waiting

HOW = ["run", "from"]


class InTurn(BaseAgent):
    """Runs its sub-agents in turn, and keeps nothing of that."""

    def __init__(self, name: str, how: str, *agents: BaseAgent) -> None:
        super().__init__(name, sub_agents=agents)
        self.how = how

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        for agent in self.sub_agents:
            if self.how == "run":
                yield RunAgent(agent)
            else:
                yield from agent.run(context)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pausing", [asking, waiting])
def test_an_agent_that_keeps_nothing_is_gone_on_with_by_what_others_have_done(how: str, pausing: Any) -> None:
    agents = [llm("a"), pausing("b"), llm("c")]
    with Story(InTurn("own", how, *agents)) as story:
        story.say()
        seen = story.answer(*story.pending)
    assert seen[-5:] == ["b says b is done", "b ends", "c says c is done", "c ends", "own ends"]
    assert len(seen) == (6 if pausing is asking else 5)
    assert [asked(agent) for agent in agents] == [1, 2, 1]


@pytest.mark.parametrize("how", HOW)
def test_workflows_that_another_agent_yields_from_keep_their_own_place(how: str) -> None:
    critic = llm("critic", calls(("exit_loop", {})), tools=[exit_loop])
    loop = LoopAgent("loop", sub_agents=[waiting("w"), critic])
    parallel = ParallelAgent("par", sub_agents=[waiting("p")])
    sequence = SequentialAgent("seq", sub_agents=[waiting("s"), llm("t")])
    with Story(InTurn("own", how, loop, parallel, sequence, llm("last"))) as story:
        assert story.say() == ["loop at w 0", "w calls wait"]
        assert story.answer(*story.pending) == [
            *("w says w is done", "w ends", "loop at critic 0", "critic calls exit_loop"),
            *("critic hears exit_loop, escalates", "loop ends", "par at", "p@par.p calls wait"),
        ]
        assert story.answer(*story.pending) == [
            *("p@par.p says p is done", "p@par.p ends", "par ends", "seq at s", "s calls wait")
        ]
        assert story.answer(*story.pending) == [
            *("s says s is done", "s ends", "seq at t", "t says t is done", "t ends", "seq ends"),
            *("last says last is done", "last ends", "own ends"),
        ]


class Stages(BaseAgent):
    """Works in stages, and keeps which of them are done, and what came of them."""

    def __init__(self, *agents: BaseAgent, with_event: bool = False) -> None:
        super().__init__("stages", sub_agents=agents)
        self.with_event = with_event
        self.found = list[dict[str, Any]]()
        self.worked = list[str]()

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        self.found.append(dict(context.agent_state))
        state = context.agent_state
        if "plan" not in state:
            self.worked.append("plan")
            state["plan"] = ["one", "two"]
            if self.with_event:
                yield context.event(self.name, content=Content.model("planned"))
            else:
                yield SaveState()
        yield RunAgent(self.sub_agents[0])
        for task in list(state["plan"]):
            self.worked.append(task)
            state["plan"] = state["plan"][1:]
            yield SaveState()
        yield context.event(self.name, content=Content.model("all done"))


@pytest.mark.parametrize("with_event", [False, True])
def test_what_an_agent_keeps_is_stored_with_its_event_or_alone_and_is_there_again(with_event: bool) -> None:
    agent = Stages(waiting("a"), with_event=with_event)
    with Story(agent) as story:
        story.say()
        kept = [event for event in story.events if event.actions.agent_state is not None]
        assert [(event.author, event.text) for event in kept] == [("stages", "planned" if with_event else "")]
        story.answer(*story.pending)
    assert agent.found == [{}, {"plan": ["one", "two"]}]
    assert agent.worked == ["plan", "one", "two"]


def test_what_an_agent_had_kept_at_its_end_is_not_there_in_the_next_run() -> None:
    agent = Stages(llm("a"))
    with Story(agent) as story:
        story.say()
        story.say("again")
    assert agent.found == [{}, {}]


def test_what_an_agent_changed_since_it_was_stored_is_not_there_after_a_pause() -> None:
    found = list[dict[str, Any]]()

    class Careless(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            found.append(dict(context.agent_state))
            yield SaveState({"n": 1})
            context.agent_state["n"] = 2
            yield RunAgent(self.sub_agents[0])

    with Story(Careless("careless", sub_agents=[waiting("a")])) as story:
        story.say()
        story.answer(*story.pending)
    assert found == [{}, {"n": 1}]


def test_an_agent_that_runs_another_in_rounds_keeps_the_round() -> None:
    class Rounds(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            while context.agent_state.setdefault("round", 0) < 3:
                yield SaveState()
                yield RunAgent(self.sub_agents[0])
                context.agent_state["round"] += 1

    writer = llm("w", "first", calls(("wait", {})), "second", "third", tools=[WAIT])
    with Story(Rounds("rounds", sub_agents=[writer])) as story:
        assert story.say() == ["rounds at 0", "w says first", "w ends", "rounds at 1", "w calls wait"]
        assert story.answer(*story.pending) == [
            *("rounds at 1", "w says second", "w ends", "rounds at 2", "w says third", "w ends"),
            "rounds at 3, ends",
        ]


def test_agents_that_are_forked_are_gone_on_with_each_on_its_branch() -> None:
    class Both(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield Fork(self.sub_agents, name=self.name)
            yield context.event(self.name, content=Content.model("both"))

    agents = [waiting("a"), llm("b"), asking("c")]
    with Story(Both("both", sub_agents=agents)) as story:
        story.say()
        first, second = sorted(story.pending, key=lambda call: call.agent)
        assert story.answer(second) == ["c@both.c hears ask", "c@both.c says c is done", "c@both.c ends"]
        assert story.answer(first)[1:] == ["a@both.a ends", "both says both", "both ends"]
    assert [asked(agent) for agent in agents] == [2, 1, 2]


def test_a_generator_that_is_left_by_a_pause_is_closed_and_can_yield_no_more() -> None:
    closed = list[str]()

    class Stubborn(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            try:
                yield RunAgent(self.sub_agents[0])
            finally:
                closed.append("closed")
                yield context.event(self.name, content=Content.model("never"))

    with Story(Stubborn("stubborn", sub_agents=[waiting("a")])) as story:
        assert story.say() == ["a calls wait"]
        assert story.result.status is RunStatus.PAUSED
        assert closed == ["closed"]
        assert story.answer(*story.pending)[2:] == ["stubborn says never", "stubborn ends"]


def test_hooks_of_an_agent_that_another_yields_from_are_called_in_no_app() -> None:
    def before(context: CallbackContext) -> Content:
        raise AssertionError(context.agent_name)

    below = llm("a", before_agent_callback=before)
    with Story(InTurn("own", "from", below)) as story:
        assert story.say() == ["a says a is done", "a ends", "own ends"]
    plain = app_of(InTurn("own", "from", llm("a", before_agent_callback=before)))
    with Runner(plain, log=MemoryEventLog()) as runner:
        assert shown(runner.run(**KEY, message="hi")) == ["a says a is done"]


def test_a_pause_waits_for_what_another_branch_does_with_its_own_effects() -> None:
    gate = Gate()

    class Slow(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield Call(gate.wait)
            yield context.event(self.name, content=Content.model("slow"))

    class Both(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield Fork(self.sub_agents)

    with Story(Both("both", sub_agents=[waiting("a"), Slow("slow")])) as story:
        run = story.runner.run(**KEY, message="hi")
        events = iter(run)
        assert next(events).function_calls
        gate.arrived()
        assert run.status is None
        gate.open()
        assert [event.text for event in events if not event.is_checkpoint] == ["slow"]
        assert run.result(PATIENCE).status is RunStatus.PAUSED
