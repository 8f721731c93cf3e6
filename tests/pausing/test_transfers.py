"""Handing over, and pausing behind that."""

from dataclasses import replace

import pytest

from apps import KEY
from intermission import (
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    Part,
    RunStatus,
    SequentialAgent,
)
from intermission.events import Event
from intermission.testing import calls
from intermission_storage import MemoryEventLog
from pausing import ASK, WAIT, Story, asked, llm, mark, model_of, resumable, seed, waiting

TO_SUB = calls(("transfer_to_agent", {"agent_name": "sub"}))


def to(name: str) -> Event:
    """The root hands over."""
    call = FunctionCall("c-1", "transfer_to_agent", {"agent_name": name})
    return replace(mark("root"), content=Content.model(calls=[call]))


def handed_over(name: str) -> Event:
    """The root has handed over."""
    response = Part(function_response=FunctionResponse("c-1", "transfer_to_agent", {}))
    return replace(mark("root", transfer_to_agent=name), content=Content("user", (response,)))


def gone_on(root: LlmAgent, *events: Event) -> list[str]:
    log, app = MemoryEventLog(), resumable(root)
    id = seed(log, app, *events, ended=RunStatus.INTERRUPTED)
    with Story(app, log) as story:
        return story.go_on(id)


def test_a_transfer_that_was_interrupted_is_made_when_the_run_is_gone_on_with() -> None:
    root = llm("root", sub_agents=[llm("sub")])
    assert gone_on(root, to("sub")) == [
        *("root hears transfer_to_agent", "sub says sub is done", "sub ends", "root ends")
    ]
    assert asked(root) == 0


def test_behind_a_transfer_the_other_agent_is_gone_on_with_and_the_root_asks_nobody() -> None:
    root = llm("root", sub_agents=[llm("sub")])
    assert gone_on(root, to("sub"), handed_over("sub")) == ["sub says sub is done", "sub ends", "root ends"]
    assert asked(root) == 0


def test_an_agent_that_was_handed_over_to_and_had_ended_is_not_run_again() -> None:
    sub = llm("sub")
    root = llm("root", sub_agents=[sub])
    ended = mark("sub", end_of_agent=True)
    assert gone_on(root, to("sub"), handed_over("sub"), mark("sub", said="done"), ended) == ["root ends"]
    assert (asked(root), asked(sub)) == (0, 0)


def test_a_transfer_to_an_agent_that_it_may_not_hand_over_to_is_told_the_model_and_not_made() -> None:
    stranger = llm("stranger")
    root = llm("root", sub_agents=[llm("sub", sub_agents=[stranger])])
    assert gone_on(root, to("stranger")) == [
        "root hears transfer_to_agent",
        "root says root is done",
        "root ends",
    ]
    assert asked(stranger) == 0
    heard = model_of(root).requests[0].contents[-1].function_responses[0]
    assert "stranger" in heard.response["message"]


def test_of_two_agents_of_one_name_the_one_runs_that_the_model_was_offered() -> None:
    near, far = waiting("sub"), llm("sub")
    other = SequentialAgent("other", sub_agents=[far])
    with Story(llm("root", TO_SUB, sub_agents=[other, near])) as story:
        assert story.say()[-1] == "sub calls wait"
        assert story.answer(*story.pending) == ["sub says sub is done", "sub ends", "root ends"]
    assert (asked(near), asked(far)) == (2, 0)


@pytest.mark.parametrize("pausing", [ASK, WAIT])
def test_an_agent_that_keeps_the_conversation_is_paused_and_gone_on_with_without_the_root(
    pausing: FunctionTool,
) -> None:
    sub = llm("sub", "first", calls((pausing.name, {})), tools=[pausing])
    root = llm("root", TO_SUB, sub_agents=[sub])
    with Story(root) as story:
        story.say()
        assert story.say("again")[0].startswith("sub calls")
        assert story.answer(*story.pending)[-2:] == ["sub says sub is done", "sub ends"]
        assert story.result.status is RunStatus.COMPLETED
        assert story.runner.sessions.events(**KEY)[-1].author == "sub"
    assert asked(root) == 1


def test_a_transfer_and_a_call_that_waits_in_one_turn_hand_over_when_that_is_answered() -> None:
    both = calls(("transfer_to_agent", {"agent_name": "sub"}), ("wait", {}))
    root = llm("root", both, tools=[WAIT], sub_agents=[llm("sub")])
    with Story(root) as story:
        assert story.say() == ["root calls transfer_to_agent wait", "root hears transfer_to_agent"]
        assert story.answer(*story.pending) == ["sub says sub is done", "sub ends", "root ends"]
    assert asked(root) == 1


def test_agents_that_hand_back_and_forth_are_gone_on_with_where_they_last_were() -> None:
    there, back = (calls(("transfer_to_agent", {"agent_name": name})) for name in ("sub", "root"))
    sub = llm("sub", back, calls(("wait", {})), tools=[WAIT])
    root = llm("root", there, there, sub_agents=[sub])
    with Story(root) as story:
        assert story.say()[-1] == "sub calls wait"
        assert story.answer(*story.pending) == ["sub says sub is done", "sub ends", "root ends"]
    assert (asked(root), asked(sub)) == (2, 3)
    assert story.result.status is RunStatus.COMPLETED
