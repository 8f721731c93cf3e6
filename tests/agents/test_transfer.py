"""Handing over to another agent of the tree."""

from dataclasses import replace
from typing import Any

import pytest

from apps import KEY, app_of
from desk import assert_legal
from intermission import (
    AgentContext,
    AgentNotFoundError,
    BaseAgent,
    Content,
    Event,
    EventActions,
    FunctionCall,
    LlmAgent,
    Runner,
    RunStatus,
    ToolContext,
    exit_loop,
    transfer_to_agent,
)
from intermission.agents.effects import RunAgent, Steps
from intermission.agents.transfer import has_answered
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from play import Play, calling, said

MODEL = ScriptedModel()


def transfer(name: str) -> Content:
    return Content.model(calls=[FunctionCall("", "transfer_to_agent", {"agent_name": name})])


def leaving() -> Content:
    return Content.model(calls=[FunctionCall("", "exit_loop", {})])


def agent(name: str, *below: BaseAgent, **more: Any) -> LlmAgent:
    return LlmAgent(name, MODEL, sub_agents=below, **more)


def offered(play: Play, request: int = 0) -> list[str] | None:
    """The names that a model was offered to transfer to."""
    for tool in play.requests[request].tools:
        if tool.name == "transfer_to_agent":
            return list(tool.parameters["properties"]["agent_name"]["enum"])
    return None


def offered_to(one: LlmAgent) -> list[str] | None:
    play = Play("ok")
    play.run(one)
    return offered(play)


class Loop(BaseAgent):
    """Runs its sub-agents in turn until one escalates."""

    def run(self, context: AgentContext) -> Steps:
        """See `BaseAgent.run`."""
        while True:
            for below in self.sub_agents:
                yield RunAgent(below)
                if context.events[-1].actions.escalate:
                    return


def test_an_agent_alone_is_offered_no_transfer_and_told_nothing_of_a_tree() -> None:
    play = Play("ok")
    play.run(agent("alone", instruction="Be brief."))

    assert play.requests[0].tools == ()
    assert play.requests[0].instruction == "Be brief."


def test_an_agent_may_transfer_to_its_children_its_parent_and_its_peers() -> None:
    left, right = agent("left", agent("below")), agent("right")
    root = agent("root", left, right)

    assert offered_to(root) == ["left", "right"]
    assert offered_to(left) == ["below", "root", "right"]
    assert offered_to(right) == ["root", "left"]


def test_an_agent_may_not_transfer_where_that_is_disallowed() -> None:
    no_parent = agent("no_parent", disallow_transfer_to_parent=True)
    no_peers = agent("no_peers", disallow_transfer_to_peers=True)
    neither = agent("neither", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    agent("root", no_parent, no_peers, neither)

    assert offered_to(no_parent) == ["no_peers", "neither"]
    assert offered_to(no_peers) == ["root"]
    assert offered_to(neither) is None


def test_an_agent_below_a_workflow_may_transfer_to_its_children_alone() -> None:
    step = agent("step", agent("below"))
    agent("root", Loop("loop", sub_agents=[step, agent("other")]))

    assert offered_to(step) == ["below"]


def test_a_model_is_told_who_it_is_and_what_the_others_are_for() -> None:
    play = Play("ok")
    play.run(agent("root", agent("billing", description="Knows prices."), description="Greets."))

    assert "You are the agent root. What you are for: Greets." in play.requests[0].instruction
    assert "- billing: Knows prices." in play.requests[0].instruction


def test_an_agent_whose_tree_becomes_part_of_another_is_offered_what_is_there_then() -> None:
    child = agent("child")
    assert offered_to(child) is None
    agent("root", child)
    assert offered_to(child) == ["root"]


def test_the_agent_that_is_handed_over_to_answers_in_the_same_run() -> None:
    play = Play(transfer("billing"), "It is 7.")
    events = play.run(agent("root", agent("billing")))

    assert [event.author for event in events] == ["root", "root", "billing"]
    assert events[1].actions.transfer_to_agent == "billing"
    assert events[2].text == "It is 7."
    assert "root called transfer_to_agent" in play.requests[1].contents[1].text


def test_the_run_follows_a_transfer_only_when_the_response_is_stored() -> None:
    play = Play(transfer("billing"), "It is 7.")
    play.run(agent("root", agent("billing")))

    names = [type(effect).__name__ for effect in play.effects]
    assert names[:5] == ["CallModel", "Emit", "CallTools", "Emit", "RunAgent"]


def test_an_agent_may_be_handed_back_to_and_goes_on() -> None:
    play = Play(transfer("child"), transfer("root"), "Here again.")
    events = play.run(agent("root", agent("child")))

    assert [event.author for event in events] == ["root", "root", "child", "child", "root"]
    assert events[-1].text == "Here again."


def test_a_model_that_transfers_to_nobody_it_was_offered_is_told_and_may_try_again() -> None:
    play = Play(transfer("nobody"), "Then I do it.")
    events = play.run(agent("root", agent("billing")))

    (response,) = events[1].function_responses
    assert response.response["status"] == "error"
    assert "one of billing, not 'nobody'" in response.response["message"]
    assert events[1].actions.transfer_to_agent is None
    assert events[-1].text == "Then I do it."


def test_a_tool_may_transfer_to_any_agent_of_the_tree() -> None:
    def escalate(tool_context: ToolContext) -> None:
        """Call the expert."""
        tool_context.actions.transfer_to_agent = "expert"

    root = agent("root", agent("first", agent("expert")), tools=[escalate])
    events = Play(Content.model(calls=[FunctionCall("", "escalate")]), "Expertly.").run(root)

    assert (events[-1].author, events[-1].text) == ("expert", "Expertly.")


def test_of_two_agents_of_one_name_the_declared_one_is_handed_over_to() -> None:
    stranger, declared = agent("same", instruction="stranger"), agent("same", instruction="declared")
    root = agent("root", agent("first", stranger), agent("second", declared))
    second = root.sub_agents[1]
    play = Play(transfer("same"), "ok")
    play.run(second)

    assert play.requests[1].instruction.startswith("declared")


def test_of_a_child_and_a_peer_of_one_name_the_child_is_handed_over_to() -> None:
    child, peer = agent("same", instruction="child"), agent("same", instruction="peer")
    one = agent("one", child)
    agent("root", one, peer)
    play = Play(transfer("same"), "ok")
    play.run(one)

    assert offered(play) == ["same", "root"]
    assert play.requests[1].instruction.startswith("child")


def test_who_has_handed_over_is_not_asked_again_when_the_others_tool_ends_the_run() -> None:
    def end(tool_context: ToolContext) -> None:
        """End."""
        tool_context.actions.end_invocation = True

    play = Play(transfer("child"), Content.model(calls=[FunctionCall("", "end")]))
    events = play.run(agent("root", agent("child", tools=[end])))

    assert [event.author for event in events] == ["root", "root", "child", "child"]


CHECKPOINT = said(None, "child", actions=EventActions(agent_state={"step": 1}))
ASKED = calling("1", author="root")


@pytest.mark.parametrize(
    ("events", "branch", "answered"),
    [
        ([ASKED, said("done", "child")], None, True),
        ([ASKED, said("done", "child"), CHECKPOINT], None, True),
        ([ASKED, said("done", "child"), said("more", "user")], None, True),
        ([ASKED, said("done", "child", branch="p.a")], None, True),
        ([said("done", "other", branch="p"), ASKED], None, False),
        ([replace(ASKED, branch="p.a"), said("done", "child", branch="p.b")], "p.a", False),
        ([replace(ASKED, branch="p.a"), said("done", "child", branch="p.a.b")], "p.a", True),
        ([], None, False),
    ],
)
def test_the_last_event_that_is_no_checkpoint_and_on_the_branch_says_whether_the_turn_has_ended(
    events: list[Event], branch: str | None, answered: bool
) -> None:
    assert has_answered(replace(Play().context(branch), events=events)) is answered


def test_a_transfer_to_an_agent_that_is_nowhere_fails_the_run_and_leaves_the_session_usable() -> None:
    model = ScriptedModel(calls(("transfer_to_agent", {"agent_name": "ghost"})), default="ok")
    root = LlmAgent("root", model, tools=[transfer_to_agent])
    with Runner(app_of(root), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result(30)
        assert result.status is RunStatus.FAILED
        assert isinstance(result.error, AgentNotFoundError)
        assert (result.error.agent, result.error.target) == ("root", "ghost")
        assert runner.run(**KEY, message="again").answer(30) == "ok"
    assert_legal(model.requests)


def test_who_has_handed_over_is_asked_again_if_the_other_ends_without_a_final_event() -> None:
    class Silent(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            """See `BaseAgent.run`."""
            yield from ()

    play = Play(transfer("silent"), "Nobody there.")
    events = play.run(agent("root", Silent("silent")))

    assert [event.text for event in events] == ["", "", "Nobody there."]


def test_who_has_handed_over_to_a_loop_is_asked_again_when_that_is_left() -> None:
    worker, judge = agent("worker"), agent("judge", tools=[exit_loop])
    root = agent("root", Loop("loop", sub_agents=[worker, judge]))
    play = Play(transfer("loop"), "draft", "more", "better", leaving(), "All done.")
    events = play.run(root)

    assert [event.author for event in events] == [
        *("root", "root", "worker", "judge", "worker", "judge", "judge", "root")
    ]
    assert events[-1].text == "All done."


def test_all_calls_beside_a_transfer_are_answered_before_it() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    hand_over = FunctionCall("", "transfer_to_agent", {"agent_name": "b"})
    both = Content.model(calls=[hand_over, FunctionCall("", "look")])
    events = Play(both, "ok").run(agent("root", agent("b"), tools=[look]))

    assert [response.name for response in events[1].function_responses] == ["transfer_to_agent", "look"]
    assert events[-1].author == "b"


def test_a_tool_of_the_programs_own_by_that_name_is_the_one_that_is_called() -> None:
    def transfer_to_agent(agent_name: str) -> str:
        """Do no such thing."""
        return f"{agent_name} is not in"

    events = Play(transfer("b"), "Sorry.").run(agent("root", agent("b"), tools=[transfer_to_agent]))

    assert events[1].function_responses[0].response == {"result": "b is not in"}
    assert events[-1].author == "root"
