"""Where agents go on: workflows, checkpoints, agents of one's own, apps that have changed."""

import pytest

from apps import APP, KEY
from intermission import (
    AgentContext,
    AgentTreeChangedError,
    App,
    BaseAgent,
    Content,
    Event,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    Runner,
    SequentialAgent,
)
from intermission.agents import Call, Emit, SaveState
from intermission.agents.effects import Steps
from intermission.testing import ScriptedModel
from paying import PAY, RESUMABLE, Shop, Submits, paused


def test_a_sequence_goes_on_where_it_was_and_what_was_done_is_not_done_again() -> None:
    shop, before, after = Shop(PAY), ScriptedModel(default="ready"), ScriptedModel(default="over")
    with shop.runner(_sequence(shop, before, after)) as runner:
        _, (call,) = paused(runner)
    with shop.runner(_sequence(shop, before, after)) as runner:
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "over"
    assert [len(model.requests) for model in (before, shop.model, after)] == [1, 2, 1]


def _sequence(shop: Shop, before: ScriptedModel, after: ScriptedModel) -> BaseAgent:
    agents = [LlmAgent("before", before), shop.agent(), LlmAgent("after", after)]
    return SequentialAgent("steps", sub_agents=agents)


def test_of_parallel_branches_only_those_that_wait_go_on() -> None:
    shop, other = Shop(PAY), ScriptedModel(default="mine is done")
    with shop.runner(ParallelAgent("both", sub_agents=[shop.agent(), LlmAgent("other", other)])) as runner:
        _, (call,) = paused(runner)
        assert call.branch == "both.clerk"
    with shop.runner(ParallelAgent("both", sub_agents=[shop.agent(), LlmAgent("other", other)])) as runner:
        assert runner.resume(**KEY, answers=[call.approve()]).result().status == "completed"
    assert [len(model.requests) for model in (shop.model, other)] == [2, 1]


def test_a_loop_goes_on_in_its_round() -> None:
    shop = Shop("first round", PAY, "second round", "never")
    with shop.runner(LoopAgent("loop", max_iterations=2, sub_agents=[shop.agent()])) as runner:
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "second round"
    assert len(shop.model.requests) == 3


def test_a_checkpoint_is_stored_in_the_commit_of_the_event_that_it_belongs_to() -> None:
    log, model = Submits(), ScriptedModel(default="said")
    agents = [LlmAgent("one", model), LlmAgent("two", model)]
    app = App(APP, SequentialAgent("steps", sub_agents=agents), resumability_config=RESUMABLE)
    with Runner(app, log=log) as runner:
        runner.run(**KEY, message="hi").answer()

    def word(event: Event) -> str:
        state, end = event.actions.agent_state, event.actions.end_of_agent
        return f"{event.author} {'ends' if end else event.text if state is None else dict(state)}"

    assert [[word(event) for event in batch] for batch in log.events()] == [
        ["user hi"],
        ["steps {'current_sub_agent': 'one'}"],
        ["one said", "one ends"],
        ["steps {'current_sub_agent': 'two'}"],
        ["two said", "two ends"],
        ["steps ends"],
    ]


def test_an_agent_of_ones_own_goes_on_with_what_it_has_kept() -> None:
    done, fails = list[int](), [True]

    def step(number: int) -> None:
        if number == 2 and fails:
            fails.clear()
            raise ConnectionError("the line is cut")
        done.append(number)

    class Steady(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            for number in range(context.agent_state.get("done", 0), 4):
                yield Call(step, number)
                yield SaveState({"done": number + 1})
            yield Emit(context.event(self.name, content=Content.model("all")))

    shop = Shop()
    with shop.runner(Steady("steady")) as runner:
        run = runner.run(**KEY, message="hi")
        assert run.result().status == "failed"
        again = runner.resume(**KEY, invocation_id=run.invocation_id)
        assert again.answer() == "all"
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("an agent renamed", "has no sub-agent 'clerk'"),
        ("a tool removed", "has no tool 'pay'"),
        ("another order", "stand in another order"),
        ("an agent and a tool added", None),
    ],
)
def test_a_change_of_the_app_that_a_pause_needs_is_refused_by_name_and_an_addition_is_fine(
    change: str, missing: str | None
) -> None:
    shop = Shop(PAY)
    first = LlmAgent("first", ScriptedModel(default="ready"))
    with shop.runner(SequentialAgent("steps", sub_agents=[first, shop.agent()])) as runner:
        _, (call,) = paused(runner)
    first = LlmAgent("first", ScriptedModel(default="ready"))
    clerk = shop.agent("cashier" if change == "an agent renamed" else "clerk")
    if change == "a tool removed":
        clerk = LlmAgent("clerk", shop.model)
    agents: list[BaseAgent] = [first, clerk]
    if change == "another order":
        agents.reverse()
    elif missing is None:
        agents.append(LlmAgent("more", ScriptedModel(default="more")))
    with shop.runner(SequentialAgent("steps", sub_agents=agents)) as runner:
        run = runner.resume(**KEY, answers=[call.approve()])
        if missing is None:
            assert run.answer() == "more"
        else:
            with pytest.raises(AgentTreeChangedError, match=missing):
                run.start()
            assert runner.run(**KEY, message="hi").result().status == "completed"
