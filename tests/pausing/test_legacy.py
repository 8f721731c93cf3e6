"""Apps of older clients: their runs pause without checkpoints, and an answer is a new run."""

from collections.abc import Callable

import pytest

from apps import KEY
from intermission import (
    BaseAgent,
    Content,
    FunctionTool,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    PendingCall,
    Plugin,
    RunStatus,
    SequentialAgent,
)
from intermission.agents.continuation import continuation
from intermission.agents.progress import Checkpoint
from intermission.pending import CONFIRMATION
from intermission.testing import calls
from pausing import ASK, LEGACY, WAIT, Story, asked, asking, llm, reply_to, resumable, waiting
from play import calling, said

Pausing = Callable[[str], LlmAgent]

TO_SUB = calls(("transfer_to_agent", {"agent_name": "sub"}))


def legacy(agent: BaseAgent, *plugins: Plugin) -> Story:
    return Story(resumable(agent, *plugins, config=LEGACY))


def yes(call: PendingCall) -> Content:
    """A message that answers a call."""
    asks = call.kind == "confirmation"
    return reply_to(call, {"confirmed": True}, CONFIRMATION) if asks else reply_to(call)


def test_after_a_transfer_the_other_agent_answers_five_times_and_no_checkpoint_is_stored() -> None:
    with legacy(llm("root", TO_SUB, sub_agents=[llm("sub")])) as story:
        story.say()
        for _ in range(5):
            assert story.say("and?") == ["sub says sub is done"]
        assert not any(event.is_checkpoint for event in story.events)


@pytest.mark.parametrize("pausing", [asking, waiting])
def test_text_after_a_pause_begins_the_sequence_at_its_first_agent(pausing: Pausing) -> None:
    agents = [llm("A"), pausing("B"), llm("C")]
    with legacy(SequentialAgent("seq", sub_agents=agents)) as story:
        story.say()
        paused = story.result
        assert paused.status is RunStatus.PAUSED
        assert story.say("go on", state_delta={"key": 1}) == [
            "A says A is done",
            "B says B is done",
            "C says C is done",
        ]
        assert story.result.invocation_id != paused.invocation_id
        assert story.runner.sessions.get(**KEY).state == {"key": 1}
        assert len(story.pending) == 1
    assert [asked(agent) for agent in agents] == [2, 2, 1]


@pytest.mark.parametrize("pausing", [asking, waiting])
def test_an_answer_is_a_new_run_that_goes_on_with_the_agent_that_asked(pausing: Pausing) -> None:
    agents = [llm("A"), pausing("B"), llm("C")]
    with legacy(SequentialAgent("seq", sub_agents=agents)) as story:
        story.say()
        paused = story.result.invocation_id
        seen = story.say(yes(story.pending[0]))
        assert seen[-2:] == ["B says B is done", "C says C is done"]
        assert seen[:-2] == (["B hears ask"] if pausing is asking else [])
        assert story.result.invocation_id != paused
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
    assert [asked(agent) for agent in agents] == [1, 2, 1]


@pytest.mark.parametrize("pausing", [asking, waiting])
def test_an_old_question_may_be_answered_after_other_runs(pausing: Pausing) -> None:
    with legacy(SequentialAgent("seq", sub_agents=[llm("A"), pausing("B"), llm("C")])) as story:
        story.say()
        story.say("something else")
        assert story.say(yes(story.pending[0]))[-2:] == ["B says B is done", "C says C is done"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])


def test_the_topmost_sequence_is_gone_on_with_by_whose_subtree_the_call_is_in() -> None:
    inner = SequentialAgent("inner", sub_agents=[llm("a1"), waiting("a2"), llm("a3")])
    outer = SequentialAgent("outer", sub_agents=[llm("first"), inner, llm("last")])
    with legacy(outer) as story:
        story.say()
        assert story.say(yes(story.pending[0])) == [
            "a2 says a2 is done",
            "a3 says a3 is done",
            "last says last is done",
        ]


def test_a_sequence_goes_on_behind_an_agent_that_had_handed_over() -> None:
    broker = llm("broker", TO_SUB, sub_agents=[waiting("sub")])
    with legacy(SequentialAgent("seq", sub_agents=[broker, llm("next")])) as story:
        story.say()
        assert story.say(yes(story.pending[0])) == ["sub says sub is done", "next says next is done"]
    assert asked(broker) == 1


def test_without_a_sequence_the_agent_that_asked_is_gone_on_with_alone() -> None:
    with legacy(llm("root", TO_SUB, sub_agents=[waiting("sub")])) as story:
        story.say()
        assert story.say(yes(story.pending[0])) == ["sub says sub is done"]


def test_of_agents_at_the_same_time_those_go_on_whose_calls_wait() -> None:
    leaves = [waiting("a"), asking("b"), llm("c")]
    parallel = ParallelAgent("par", sub_agents=leaves)
    with legacy(SequentialAgent("seq", sub_agents=[parallel, llm("next")])) as story:
        story.say()
        first, second = sorted(story.pending, key=lambda call: call.agent)
        assert story.say(yes(first)) == ["a@par.a says a is done"]
        assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, (second,))
        assert story.say(yes(second)) == [
            "b@par.b hears ask",
            "b@par.b says b is done",
            "next says next is done",
        ]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
    assert [asked(agent) for agent in leaves] == [2, 2, 1]


def test_a_loop_in_a_sequence_goes_on_with_the_agent_that_asked() -> None:
    loop = LoopAgent("loop", max_iterations=1, sub_agents=[llm("w1"), asking("w2")])
    with legacy(SequentialAgent("seq", sub_agents=[loop, llm("next")])) as story:
        story.say()
        assert story.say(yes(story.pending[0])) == [
            "w2 hears ask",
            "w2 says w2 is done",
            "next says next is done",
        ]


def test_a_turn_goes_on_when_the_last_of_its_calls_is_answered() -> None:
    agent = waiting("B", times=2)
    with legacy(SequentialAgent("seq", sub_agents=[agent, llm("C")])) as story:
        story.say()
        first, second = story.pending
        assert story.say(yes(second)) == []
        assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, (first,))
        assert story.say(yes(first)) == ["B says B is done", "C says C is done"]
    assert asked(agent) == 2


def test_calls_that_are_approved_one_after_another_are_each_made_once() -> None:
    made = list[int]()

    def pay(n: int) -> dict[str, int]:
        """Pay."""
        made.append(n)
        return {"paid": n}

    pays = FunctionTool(pay, require_confirmation=True)
    agent = llm("B", calls(("pay", {"n": 1}), ("pay", {"n": 2})), tools=[pays])
    with legacy(SequentialAgent("seq", sub_agents=[agent, llm("C")])) as story:
        story.say()
        first, second = story.pending
        assert story.say(yes(first)) == ["B hears pay"]
        assert story.say(yes(second)) == ["B hears pay", "B says B is done", "C says C is done"]
    assert made == [1, 2]


@pytest.mark.parametrize("first", ["ask", "wait"])
def test_a_turn_in_which_one_call_asks_for_leave_and_another_waits_goes_on_with_the_last_answer(
    first: str,
) -> None:
    agent = llm("B", calls(("ask", {}), ("wait", {})), tools=[ASK, WAIT])
    with legacy(SequentialAgent("seq", sub_agents=[agent, llm("C")])) as story:
        story.say()
        one, other = sorted(story.pending, key=lambda call: call.tool != first)
        assert story.say(yes(one)) == (["B hears ask"] if first == "ask" else [])
        assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, (other,))
        assert story.say(yes(other))[-2:] == ["B says B is done", "C says C is done"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])


def test_an_agent_may_pause_again_in_the_run_that_answers_it() -> None:
    agent = llm("B", calls(("wait", {})), calls(("wait", {})), tools=[WAIT])
    with legacy(SequentialAgent("seq", sub_agents=[agent, llm("C")])) as story:
        story.say()
        first = story.result.invocation_id
        assert story.say(yes(story.pending[0])) == ["B calls wait"]
        (call,) = story.pending
        assert call.invocation_id == story.result.invocation_id != first
        assert story.say(yes(call)) == ["B says B is done", "C says C is done"]


def test_a_plugin_that_replaces_the_message_cannot_take_the_answer_away() -> None:
    class Replacing(Plugin):
        def on_user_message_callback(self, **_: object) -> Content:
            """See `Plugin`."""
            return Content.user("in its place")

    with legacy(SequentialAgent("seq", sub_agents=[waiting("B"), llm("C")]), Replacing("replacing")) as story:
        story.say()
        call = story.pending[0]
        assert story.say(yes(call)) == ["B says B is done", "C says C is done"]
        answer = [event for event in story.events if event.author == "user"][-1]
        assert [response.id for response in answer.function_responses] == [call.id]
        assert answer.text == "in its place"


def test_a_call_of_an_agent_that_the_tree_does_not_have_leads_nowhere() -> None:
    tree = SequentialAgent("seq", sub_agents=[llm("A"), llm("B")])
    unknown = [said("hi", "user"), calling("c-1", author="stranger", seq=2)]
    assert continuation(tree, unknown, ["c-1"], []) is None
    assert continuation(tree, unknown, ["c-9"], []) is None

    found = continuation(tree, [said("hi", "user"), calling("c-1", author="B", seq=2)], ["c-1"], ["c-1"])
    assert found is not None
    assert (found.agent, found.branch, found.waiting) == (tree, None, frozenset())
    assert found.places == {
        (None, "B"): Checkpoint(until=2),
        (None, "seq"): Checkpoint({"current_sub_agent": "B"}),
    }
