"""Hooks around runs that pause and are gone on with."""

from functools import partial
from typing import Any

import pytest

from apps import KEY
from hooks import BOTH_KINDS, doing, of_kind, plugin
from intermission import (
    CallbackContext,
    Content,
    Event,
    ParallelAgent,
    RunResult,
    RunStatus,
    SequentialAgent,
)
from pausing import Story, asked, asking, llm, resumable, waiting, words


@BOTH_KINDS
def test_the_hooks_around_a_run_are_called_for_the_pause_and_for_going_on(kind: str) -> None:
    names = ["on_user_message_callback", "before_run_callback", "after_run_callback"]
    called = list[str]()
    noting = plugin("noting", kind, **{name: doing(partial(called.append, name)) for name in names})
    with Story(resumable(waiting("A"), noting)) as story:
        story.say()
        assert (story.result.status, called) == (RunStatus.PAUSED, names)
        story.answer(*story.pending)
        assert (story.result.status, called) == (RunStatus.COMPLETED, names * 2)


def test_the_end_of_each_run_is_told_with_how_it_ended() -> None:
    ends = list[tuple[str, int]]()

    def on_run_end(run: Any, result: RunResult) -> None:
        ends.append((result.status, len(result.pending)))

    with Story(resumable(waiting("A"), plugin("noting", on_run_end=on_run_end))) as story:
        story.say()
        story.answer(*story.pending)
    assert ends == [("paused", 1), ("completed", 0)]


@BOTH_KINDS
def test_before_an_agent_is_asked_each_time_it_is_gone_on_with_and_after_it_at_its_end(
    kind: str,
) -> None:
    called = list[str]()

    def before(context: CallbackContext) -> None:
        called.append(f"before {context.agent_name}")

    def after(context: CallbackContext) -> Content:
        called.append(f"after {context.agent_name}")
        return Content.model("that was all")

    callbacks: dict[str, Any] = {
        "before_agent_callback": of_kind(kind, before),
        "after_agent_callback": of_kind(kind, after),
    }
    first, second = waiting("A", **callbacks), llm("B")
    with Story(SequentialAgent("seq", sub_agents=[first, second], **callbacks)) as story:
        story.say()
        assert called == ["before seq", "before A"]
        assert story.answer(*story.pending) == [
            *("A says A is done", "A says that was all", "A ends", "seq at B", "B says B is done", "B ends"),
            *("seq says that was all", "seq ends"),
        ]
    assert called == ["before seq", "before A"] * 2 + ["after A", "after seq"]


def test_content_before_an_agent_ends_it_with_its_mark_so_that_it_is_not_asked_again() -> None:
    called = list[str]()

    def before(context: CallbackContext) -> Content:
        called.append(context.agent_name)
        return Content.model("in its place")

    first = llm("A", before_agent_callback=before)
    with Story(SequentialAgent("seq", sub_agents=[first, waiting("B")])) as story:
        assert story.say()[:3] == ["seq at A", "A says in its place", "A ends"]
        story.answer(*story.pending)
    assert (called, asked(first)) == (["A"], 0)


def test_content_before_an_agent_that_is_gone_on_with_takes_the_place_of_what_it_had_left() -> None:
    def before(context: CallbackContext) -> Content | None:
        return Content.model("enough") if context.saved else None

    agent = asking("A", before_agent_callback=before)
    with Story(SequentialAgent("seq", sub_agents=[agent, llm("B")])) as story:
        story.say()
        assert story.answer(*story.pending)[:3] == ["A says enough", "A ends", "seq at B"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
    assert asked(agent) == 1


@BOTH_KINDS
def test_event_hooks_see_checkpoints_before_they_are_shown_and_the_run_pauses_all_the_same(
    kind: str,
) -> None:
    seen = list[str]()

    def on_event(event: Event, **_: Any) -> Event | None:
        seen.append(words(event))
        return None

    looking = plugin("looking", kind, on_event_callback=on_event)
    with Story(resumable(SequentialAgent("seq", sub_agents=[waiting("A"), llm("B")]), looking)) as story:
        assert story.say() == ["seq at A", "A calls wait"] == seen
        assert story.result.status is RunStatus.PAUSED
        del seen[:]
        assert story.answer(*story.pending) == seen
        assert seen[-1] == "seq ends"


def test_an_event_hook_that_shows_something_else_changes_neither_the_pause_nor_the_checkpoints() -> None:
    def on_event(event: Event, **_: Any) -> Event:
        return Event(invocation_id=event.invocation_id, author="x", timestamp=0.0, content=Content.model("?"))

    other = plugin("other", on_event_callback=on_event)
    with Story(resumable(SequentialAgent("seq", sub_agents=[asking("A"), llm("B")]), other)) as story:
        assert story.say() == ["x says ?"] * 3
        assert story.result.status is RunStatus.PAUSED
        story.answer(*story.pending)
        assert [words(event) for event in story.events if event.author != "user"][-4:] == [
            *("seq at B", "B says B is done", "B ends", "seq ends")
        ]


@BOTH_KINDS
def test_who_replaces_the_message_cannot_take_an_answer_away_or_give_another_one(kind: str) -> None:
    agent = waiting("A", times=2)

    def on_user_message(user_message: Content, **_: Any) -> Content | None:
        if not user_message.function_responses:
            return None
        return Content.user(f"{len(user_message.function_responses)} answers")

    with Story(resumable(agent, plugin("other", kind, on_user_message_callback=on_user_message))) as story:
        story.say()
        first, second = story.pending
        assert story.answer(first) == []
        assert story.result.pending == (second,)
        assert story.answer(second) == ["A says A is done", "A ends"]
        said = [event for event in story.events if event.author == "user"][1:]
    assert [(len(event.function_responses), event.text) for event in said] == [(1, "1 answers")] * 2


def answers_when_gone_on_with(times: list[int]) -> Any:
    """A plugin that answers in the place of the agents when a run is gone on with."""

    def before_run(invocation_context: CallbackContext) -> Content | None:
        times.append(len(times))
        return Content.model("not today") if len(times) > 1 else None

    return plugin("closed", before_run_callback=before_run)


@pytest.mark.parametrize("after_run", [False, True])
def test_content_before_a_run_that_is_gone_on_with_answers_it_and_what_waits_still_does(
    after_run: bool,
) -> None:
    agent, called = waiting("A", times=2), list[int]()
    plugins = [answers_when_gone_on_with([])]
    if after_run:
        plugins.append(plugin("after", after_run_callback=doing(lambda: called.append(1))))
    with Story(resumable(agent, *plugins)) as story:
        story.say()
        first, second = story.pending
        assert story.answer(first) == ["model says not today"]
        assert (story.result.status, story.pending) == (RunStatus.PAUSED, [second])
        assert story.answer(second) == ["model says not today"]
        assert (story.result.status, story.pending) == (RunStatus.COMPLETED, [])
    assert asked(agent) == 1
    assert len(called) == (3 if after_run else 0)


def test_a_hook_that_fails_after_a_run_fails_the_pause_and_the_run_can_be_gone_on_with_by_its_id() -> None:
    fails = [True]

    def after_run(**_: Any) -> None:
        if fails:
            fails.clear()
            raise RuntimeError("broken")

    with Story(resumable(waiting("A"), plugin("broken", after_run_callback=after_run))) as story:
        with pytest.raises(RuntimeError, match="broken"):
            story.say()
        assert (story.result.status, story.pending) == (RunStatus.FAILED, [])
        failed = story.result.invocation_id

        assert story.go_on(failed) == []
        assert story.result.status is RunStatus.PAUSED
        assert story.answer(*story.pending) == ["A says A is done", "A ends"]


def test_what_hooks_change_in_the_state_at_a_pause_is_stored_with_it() -> None:
    def after_run(invocation_context: CallbackContext) -> None:
        invocation_context.state["paused"] = invocation_context.state.get("paused", 0) + 1

    with Story(resumable(waiting("A"), plugin("counting", after_run_callback=after_run))) as story:
        story.say()
        assert story.result.status is RunStatus.PAUSED
        assert story.runner.sessions.get(**KEY).state == {"paused": 1}
        story.answer(*story.pending)
        assert story.runner.sessions.get(**KEY).state == {"paused": 2}


def test_tool_hooks_are_asked_about_a_call_when_it_is_made_and_may_answer_for_it() -> None:
    about = list[str]()

    def before_tool(tool: Any, **_: Any) -> dict[str, Any] | None:
        about.append(tool.name)
        return {"from": "hook"} if len(about) == 2 else None

    agent = asking("A")
    with Story(resumable(agent, plugin("tools", before_tool_callback=before_tool))) as story:
        story.say()
        assert story.answer(*story.pending) == ["A hears ask", "A says A is done", "A ends"]
        heard = [each for event in story.events for each in event.function_responses if each.name == "ask"]
    assert about == ["ask", "ask"]
    assert [each.response for each in heard] == [{"from": "hook"}]


def test_agents_on_branches_are_each_asked_before_them_again_unless_they_had_ended() -> None:
    called = list[str]()

    def before(context: CallbackContext) -> None:
        called.append(f"{context.agent_name} {context.branch}")

    leaves = [waiting("a", before_agent_callback=before), llm("b", before_agent_callback=before)]
    with Story(ParallelAgent("par", sub_agents=leaves)) as story:
        story.say()
        story.answer(*story.pending)
    assert sorted(called[:2]) == ["a par.a", "b par.b"]
    assert called[2:] == ["a par.a"]
