"""Which agent gets the next message."""

import pytest

from apps import KEY, app_of
from intermission import BaseAgent, Content, Event, FunctionCall, LlmAgent, Runner
from intermission.agents.routing import route
from intermission.events import EventActions
from intermission.testing import ScriptedModel, calls
from intermission_storage import MemoryEventLog
from play import answering, calling, said

NEXT = said("next", "user")


def tree(*, middle_keeps: bool = True, leaf_keeps: bool = True, workflow: bool = False) -> LlmAgent:
    """A root with a middle agent, which has a leaf."""
    model = ScriptedModel()
    leaf = LlmAgent("leaf", model, disallow_transfer_to_parent=not leaf_keeps)
    middle: BaseAgent
    if workflow:
        middle = BaseAgent("middle", sub_agents=[leaf])
    else:
        middle = LlmAgent("middle", model, sub_agents=[leaf], disallow_transfer_to_parent=not middle_keeps)
    return LlmAgent("root", model, sub_agents=[middle])


def to(root: BaseAgent, *events: Event) -> str:
    return route(root, events).name


def test_the_first_message_goes_to_the_root() -> None:
    assert to(tree(), NEXT) == "root"
    assert to(tree()) == "root"


def test_the_next_message_goes_to_the_agent_that_spoke_last() -> None:
    assert to(tree(), said("hi", "user"), said("x", "root"), said("y", "leaf"), NEXT) == "leaf"
    assert to(tree(), said("y", "leaf"), said("x", "root"), NEXT) == "root"


def test_authors_that_the_tree_does_not_have_are_passed_over() -> None:
    assert to(tree(), said("y", "leaf"), said("z", "stranger"), NEXT) == "leaf"


def test_an_agent_that_may_not_hand_back_to_its_parent_does_not_keep_the_conversation() -> None:
    spoken = [said("x", "root"), said("y", "middle"), said("z", "leaf"), NEXT]

    assert to(tree(leaf_keeps=False), *spoken) == "middle"
    assert to(tree(middle_keeps=False), *spoken) == "root"


def test_an_agent_below_a_workflow_does_not_keep_the_conversation() -> None:
    assert to(tree(workflow=True), said("z", "leaf"), said("y", "middle"), NEXT) == "root"


def test_a_checkpoint_is_no_word_of_its_author() -> None:
    mark = said(None, "root", actions=EventActions(end_of_agent=True))

    assert to(tree(), said("z", "leaf"), mark, NEXT) == "leaf"


def test_an_answer_to_a_call_goes_to_the_agent_that_called() -> None:
    asked = [calling("1", author="leaf"), said("wait", "root")]

    assert to(tree(middle_keeps=False), *asked, answering("1", author="user")) == "leaf"


@pytest.mark.parametrize("before", [[], [calling("2", author="root")], [calling("1", author="stranger")]])
def test_an_answer_to_no_call_or_to_one_of_an_unknown_agent_is_a_message_like_others(
    before: list[Event],
) -> None:
    assert to(tree(), *before, said("z", "leaf"), answering("1", author="user")) == "leaf"


def test_agents_above_the_root_that_an_app_has_do_not_count() -> None:
    root = tree()
    LlmAgent("above", ScriptedModel(), sub_agents=[root], disallow_transfer_to_parent=True)

    assert to(root, said("z", "leaf"), NEXT) == "leaf"


def test_a_session_goes_on_with_the_agent_that_was_handed_over_to_also_after_a_restart() -> None:
    hand_over = calls(("transfer_to_agent", {"agent_name": "billing"}))
    billing = ScriptedModel("It is 7.", "It is still 7.", default="And now 8.")
    desk = ScriptedModel(hand_over)
    log = MemoryEventLog()
    for message, answer in (("How much?", "It is 7."), ("Sure?", "It is still 7."), ("Now?", "And now 8.")):
        root = LlmAgent("desk", desk, sub_agents=[LlmAgent("billing", billing)])
        with Runner(app_of(root), log=log) as runner:
            assert runner.run(**KEY, message=message).answer(30) == answer
    assert len(desk.requests) == 1


def test_an_answer_to_a_call_that_a_content_brings_along_is_routed() -> None:
    event = said(Content.model("one", calls=[FunctionCall("1", "look")]), "middle")

    assert to(tree(), event, said("x", "root"), answering("1", author="user")) == "middle"
