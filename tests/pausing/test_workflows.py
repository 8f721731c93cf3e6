"""What a run that pauses inside workflows shows, and how it goes on: event by event."""

from collections.abc import Callable

import pytest

from intermission import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, RunStatus, SequentialAgent
from intermission.testing import calls
from pausing import Story, asked, asking, llm, paused_in, waiting

Pausing = Callable[[str], LlmAgent]

TO_SUB = calls(("transfer_to_agent", {"agent_name": "sub"}))


def test_a_sequence_stops_at_the_agent_that_asks_and_goes_on_with_it_when_it_is_answered() -> None:
    first = llm("A")
    with Story(SequentialAgent("seq", sub_agents=[first, asking("B"), llm("C")])) as story:
        assert story.say() == [
            "seq at A",
            "A says A is done",
            "A ends",
            "seq at B",
            "B calls ask",
            "B calls adk_request_confirmation",
        ]
        paused = story.result
        assert story.answer(story.pending[0]) == [
            "B hears ask",
            "B says B is done",
            "B ends",
            "seq at C",
            "C says C is done",
            "C ends",
            "seq ends",
        ]
    assert (paused.status, story.result.status) == (RunStatus.PAUSED, RunStatus.COMPLETED)
    assert asked(first) == 1


def test_a_sequence_goes_on_behind_a_result_from_outside_without_a_word_of_what_was_before() -> None:
    with Story(SequentialAgent("seq", sub_agents=[llm("A"), waiting("B"), llm("C")])) as story:
        story.say()
        assert story.answer(story.pending[0]) == [
            "B says B is done",
            "B ends",
            "seq at C",
            "C says C is done",
            "C ends",
            "seq ends",
        ]


def test_a_loop_goes_on_in_the_round_in_which_it_paused() -> None:
    with Story(LoopAgent("loop", max_iterations=1, sub_agents=[waiting("w1"), llm("w2")])) as story:
        assert story.say() == ["loop at w1 0", "w1 calls wait"]
        assert story.answer(story.pending[0]) == [
            "w1 says w1 is done",
            "w1 ends",
            "loop at w2 0",
            "w2 says w2 is done",
            "w2 ends",
            "loop ends",
        ]


def test_a_loop_that_pauses_asks_its_model_once_and_keeps_its_other_rounds() -> None:
    writer = llm("w", calls(("wait", {})), "two", calls(("wait", {})), tools=[waiting("x").tools["wait"]])
    with Story(LoopAgent("loop", max_iterations=3, sub_agents=[writer])) as story:
        assert story.say() == ["loop at w 0", "w calls wait"]
        assert asked(writer) == 1

        assert story.answer(story.pending[0]) == ["w says two", "w ends", "loop at w 1", "w calls wait"]
        assert story.answer(story.pending[0]) == [
            *("w says w is done", "w ends", "loop at w 2", "w says w is done", "w ends", "loop ends")
        ]


def test_an_agent_that_handed_over_ends_behind_the_other_which_keeps_the_conversation() -> None:
    root = llm("root", TO_SUB, sub_agents=[llm("sub")])
    with Story(root) as story:
        assert story.say() == [
            "root calls transfer_to_agent",
            "root hears transfer_to_agent",
            "sub says sub is done",
            "sub ends",
            "root ends",
        ]
        assert story.say("and now?") == ["sub says sub is done", "sub ends"]
    assert asked(root) == 1


def test_when_an_agent_that_was_handed_over_to_pauses_the_end_of_the_other_is_written_last() -> None:
    with Story(llm("root", TO_SUB, sub_agents=[waiting("sub")])) as story:
        assert story.say()[-1] == "sub calls wait"
        paused = story.result

        assert story.answer(story.pending[0]) == ["sub says sub is done", "sub ends", "root ends"]
    assert story.result.invocation_id == paused.invocation_id
    assert {event.invocation_id for event in story.events} == {paused.invocation_id}


def test_the_model_is_asked_once_when_the_last_call_of_its_turn_is_answered() -> None:
    agent = waiting("A", times=2)
    with Story(agent) as story:
        first, second = paused_in(story)
        assert story.answer(second) == []
        assert (story.result.status, story.result.pending) == (RunStatus.PAUSED, (first,))
        assert asked(agent) == 1

        assert story.answer(first) == ["A says A is done", "A ends"]
    assert asked(agent) == 2


@pytest.mark.parametrize("pausing", [asking, waiting])
def test_sequences_inside_one_another_keep_where_each_of_them_is(pausing: Pausing) -> None:
    inner = SequentialAgent("inner", sub_agents=[pausing("a1"), llm("a2")])
    with Story(SequentialAgent("outer", sub_agents=[inner, llm("b")])) as story:
        assert story.say()[:2] == ["outer at inner", "inner at a1"]
        gone_on = story.answer(story.pending[0])
    assert gone_on[:-10] == (["a1 hears ask"] if pausing is asking else [])
    assert gone_on[-10:] == [
        "a1 says a1 is done",
        "a1 ends",
        "inner at a2",
        "a2 says a2 is done",
        "a2 ends",
        "inner ends",
        "outer at b",
        "b says b is done",
        "b ends",
        "outer ends",
    ]


def at_once(*agents: BaseAgent) -> SequentialAgent:
    """Agents at the same time, and then another one."""
    return SequentialAgent("seq", sub_agents=[ParallelAgent("par", sub_agents=agents), llm("next")])


def test_a_leaf_on_a_branch_is_answered_and_what_follows_the_branches_runs() -> None:
    with Story(at_once(waiting("a"))) as story:
        assert story.say() == ["seq at par", "par at", "a@par.a calls wait"]
        assert story.answer(story.pending[0]) == [
            "a@par.a says a is done",
            "a@par.a ends",
            "par ends",
            "seq at next",
            "next says next is done",
            "next ends",
            "seq ends",
        ]


def in_turn(leaf: BaseAgent) -> SequentialAgent:
    """An agent and then another one."""
    return SequentialAgent("seq", sub_agents=[leaf, llm("next")])


@pytest.mark.parametrize("under", [at_once, in_turn])
def test_a_leaf_with_two_calls_of_which_one_is_answered_says_nothing(
    under: Callable[[BaseAgent], BaseAgent],
) -> None:
    leaf = waiting("a", times=2)
    with Story(under(leaf)) as story:
        first, second = paused_in(story)
        assert story.answer(first) == []
        assert story.result.pending == (second,)
        assert asked(leaf) == 1
        assert story.answer(second)[-2:] == ["next ends", "seq ends"]


def test_of_two_leaves_that_wait_the_one_that_is_answered_goes_on_alone() -> None:
    first, second = waiting("a"), asking("b")
    with Story(at_once(first, second)) as story:
        calls_of = paused_in(story)
        assert story.answer(calls_of[0]) == ["a@par.a says a is done", "a@par.a ends"]
        assert story.result.pending == (calls_of[1],)

        assert story.answer(calls_of[1]) == [
            "b@par.b hears ask",
            "b@par.b says b is done",
            "b@par.b ends",
            "par ends",
            "seq at next",
            "next says next is done",
            "next ends",
            "seq ends",
        ]
    assert (asked(first), asked(second)) == (2, 2)


def test_a_branch_that_waits_holds_up_no_other_one() -> None:
    paused, plain = waiting("a"), llm("b")
    with Story(at_once(paused, plain)) as story:
        assert sorted(story.say()[2:]) == ["a@par.a calls wait", "b@par.b ends", "b@par.b says b is done"]
        assert story.result.status is RunStatus.PAUSED
        assert asked(paused) == 1

        assert story.answer(story.pending[0])[:3] == ["a@par.a says a is done", "a@par.a ends", "par ends"]
    assert asked(plain) == 1


def test_an_answer_is_stored_on_the_branch_of_its_call() -> None:
    with Story(at_once(waiting("a"), waiting("b"))) as story:
        call, _ = paused_in(story)
        story.answer(call)
        answers = [event for event in story.events if event.author == "user"]
    assert call.branch == "par.a"
    assert [event.branch for event in answers] == [None, "par.a"]


def test_a_leaf_on_a_branch_behind_a_transfer_is_gone_on_with() -> None:
    parallel = ParallelAgent("sub", sub_agents=[waiting("a"), llm("b")])
    with Story(llm("root", TO_SUB, sub_agents=[parallel])) as story:
        story.say()
        assert story.answer(story.pending[0]) == [
            "a@sub.a says a is done",
            "a@sub.a ends",
            "sub ends",
            "root ends",
        ]


def test_a_sequence_goes_on_behind_an_agent_that_had_handed_over_to_the_leaf() -> None:
    broker = llm("broker", TO_SUB, sub_agents=[waiting("sub")])
    with Story(SequentialAgent("seq", sub_agents=[broker, llm("next")])) as story:
        story.say()
        assert story.answer(story.pending[0]) == [
            "sub says sub is done",
            "sub ends",
            "broker ends",
            "seq at next",
            "next says next is done",
            "next ends",
            "seq ends",
        ]
    assert asked(broker) == 1


def test_several_agents_that_ask_are_answered_in_one_go() -> None:
    with Story(at_once(asking("a", times=2), waiting("b"))) as story:
        gone_on = story.answer(*paused_in(story))
    assert sorted(gone_on[:5]) == [
        "a@par.a ends",
        "a@par.a hears ask ask",
        "a@par.a says a is done",
        "b@par.b ends",
        "b@par.b says b is done",
    ]
    assert gone_on[5:] == ["par ends", "seq at next", "next says next is done", "next ends", "seq ends"]
