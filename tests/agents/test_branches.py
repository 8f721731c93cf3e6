"""Agents on branches of their own, at the same time."""

from apps import KEY, app_of
from desk import assert_legal
from intermission import AgentContext, BaseAgent, Content, LlmAgent, Runner
from intermission.agents.effects import Fork, Steps
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog

PATIENCE = 30.0
ROUNDS = 10


class Together(BaseAgent):
    """Runs its first sub-agents at the same time, and the last one when they have ended."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        yield Fork(self.sub_agents[:-1])
        yield from self.sub_agents[-1].run(context)


def look(where: str) -> str:
    """Look."""
    return where


def contents_of(model: ScriptedModel) -> list[Content]:
    """What a model was asked about last."""
    return list(model.requests[-1].contents)


def test_agents_on_branches_read_the_events_while_others_are_stored_and_see_their_own_alone() -> None:
    names = [f"agent_{letter}" for letter in "abcd"]
    models = {
        name: ScriptedModel(*[calls(("look", {"where": name}))] * ROUNDS, f"{name} is done") for name in names
    }
    last = ScriptedModel("All done.")
    agents = [LlmAgent(name, models[name], tools=[look]) for name in names]
    together = Together("together", sub_agents=[*agents, LlmAgent("last", last)])
    with Runner(app_of(together), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(PATIENCE) == "All done."

    for name, model in models.items():
        assert_legal(model.requests)
        assert len(model.requests) == ROUNDS + 1
        contents = contents_of(model)
        assert len(contents) == 1 + 2 * ROUNDS
        seen = {one.response["result"] for content in contents for one in content.function_responses}
        assert seen == {name}
    told = "\n".join(content.text for content in contents_of(last))
    assert all(f"{name} said: {name} is done" in told for name in names)
