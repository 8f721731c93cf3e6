"""What cannot be gone on with is refused by a typed error, and a session that was refused is as it was."""

from collections.abc import Callable
from typing import Any

import pytest

from apps import APP, KEY, app_of
from intermission import (
    AgentTreeChangedError,
    AmbiguousResumeError,
    Answer,
    App,
    Content,
    FunctionResponse,
    InvalidAnswerError,
    MissingCallIdError,
    NothingToResumeError,
    NotResumableError,
    ParallelAgent,
    Part,
    ResumabilityConfig,
    Run,
    Runner,
    RunStatus,
    SequentialAgent,
    SessionNotFoundError,
    UnknownCallError,
)
from intermission.pending import CONFIRMATION
from intermission.testing import calls
from intermission.testing.replies import Reply
from intermission_storage import EncodingError, MemoryEventLog
from pausing import ASK, LEGACY, WAIT, Story, asking, llm, model_of, reply_to, resumable, waiting

YES = {"confirmed": True}


def test_the_two_ways_to_pause_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        ResumabilityConfig(is_resumable=True, plain_text_continuation_auto_resume=True)


@pytest.mark.parametrize("config", [None, LEGACY], ids=["not resumable", "without checkpoints"])
def test_an_app_that_is_not_resumable_refuses_by_the_call_itself(config: ResumabilityConfig | None) -> None:
    app = App(APP, asking("A"), resumability_config=config)
    with Runner(app, log=MemoryEventLog()) as runner:
        with pytest.raises(NotResumableError, match=APP):
            runner.resume(**KEY, invocation_id="e-1")
        with pytest.raises(NotResumableError):
            runner.resume(**KEY, answers={"c-1": {}})
        with pytest.raises(NotResumableError):
            runner.run(**KEY, message="hi", invocation_id="e-1")


def test_a_response_to_no_call_is_a_message_like_another_where_runs_are_not_gone_on_with() -> None:
    agent = llm("root", sub_agents=[llm("sub")])
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message=reply_to("c-1"))
        assert [event.author for event in run] == ["root"]
        assert run.result(0).status is RunStatus.COMPLETED


Asks = Callable[[Runner], Run]


def by_answer(response: dict[str, Any], id: str = "unknown", invocation_id: str | None = None) -> Asks:
    return lambda runner: runner.resume(**KEY, answers={id: response}, invocation_id=invocation_id)


def by_id(message: str = "") -> Asks:
    def asks(runner: Runner) -> Run:
        if message:
            return runner.run(**KEY, message=message, invocation_id="e-unknown")
        return runner.resume(**KEY, invocation_id="e-unknown")

    return asks


def by_message(id: str, invocation_id: str | None = None) -> Asks:
    return lambda runner: runner.run(**KEY, message=reply_to(id), invocation_id=invocation_id)


@pytest.mark.parametrize(
    ("asks", "kind"),
    [
        (by_answer({}), UnknownCallError),
        (by_message("unknown"), UnknownCallError),
        (by_message("unknown", "e-1"), UnknownCallError),
        (by_answer({}, ""), MissingCallIdError),
        (by_message(""), MissingCallIdError),
        (by_id(), NothingToResumeError),
        (by_id("hi"), NothingToResumeError),
    ],
)
def test_what_the_session_does_not_know_is_refused_and_nothing_is_stored(
    asks: Asks, kind: type[Exception]
) -> None:
    with Story(asking("A")) as story:
        story.say()
        assert "Nothing was stored" in story.refused(kind, asks(story.runner))
        assert len(story.pending) == 1
        assert story.say("still there?")[-1] == "A ends"


@pytest.mark.parametrize("asks", [by_answer({}), by_message("c-1")])
def test_a_session_that_is_not_there_has_nothing_to_go_on_with(asks: Asks) -> None:
    with Story(asking("A")) as story:
        run = asks(story.runner)
        with pytest.raises(SessionNotFoundError):
            run.start()
        assert story.runner.sessions.list(user_id="u") == []


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"confirmed": "yes"},
        {"confirmed": True, "approved": False},
        {"answer": True},
        {"response": "no JSON"},
        {"response": "[" * 100_000},
        {"response": "[true]"},
        {"response": '{"confirmed": 1}'},
        {"confirmed": None},
    ],
)
@pytest.mark.parametrize("as_message", [False, True])
def test_an_answer_that_says_neither_yes_nor_no_is_refused_and_the_call_still_waits(
    response: dict[str, Any], as_message: bool
) -> None:
    with Story(asking("A")) as story:
        story.say()
        (call,) = story.pending
        if as_message:
            run = story.runner.run(**KEY, message=reply_to(call, response or {"x": 1}, CONFIRMATION))
        else:
            run = story.runner.resume(**KEY, answers={call.id: response})
        assert "still waits" in story.refused(InvalidAnswerError, run)
        assert story.pending == [call]
        with pytest.raises(InvalidAnswerError):
            call.reply(response)


def test_a_call_that_waits_for_its_result_can_be_neither_approved_nor_rejected() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        with pytest.raises(InvalidAnswerError, match=r"reply\(\)"):
            call.approve()
        with pytest.raises(InvalidAnswerError, match=r"reply\(\)"):
            call.reject()


def test_of_several_answers_of_which_one_is_wrong_none_is_taken() -> None:
    with Story(llm("A", calls(("ask", {}), ("wait", {})), tools=[ASK, WAIT])) as story:
        story.say()
        asked, result = sorted(story.pending, key=lambda call: call.tool)
        run = story.runner.resume(**KEY, answers=[result.reply({"ok": 1}), Answer(asked.id, {"maybe": 1})])
        story.refused(InvalidAnswerError, run)
        assert len(story.pending) == 2


def test_answers_to_calls_of_two_invocations_are_refused_and_each_alone_is_taken() -> None:
    agent = llm("A", calls(("wait", {})), calls(("wait", {})), tools=[WAIT])
    with Story(agent) as story:
        story.say("one")
        story.say("two")
        first, second = story.pending
        answers = [first.reply({"n": 1}), second.reply({"n": 2})]
        assert "2 invocations" in story.refused(
            AmbiguousResumeError, story.runner.resume(**KEY, answers=answers)
        )
        parts = (reply_to(first).parts[0], reply_to(second).parts[0])
        story.refused(AmbiguousResumeError, story.runner.run(**KEY, message=Content("user", parts)))
        assert [story.answer(answer)[-1] for answer in answers] == ["A ends", "A ends"]


def test_the_call_tells_the_invocation_whatever_else_is_given() -> None:
    with Story(llm("A", calls(("wait", {})), "done", tools=[WAIT])) as story:
        story.say("one")
        first = story.result.invocation_id
        story.say("two")
        second = story.result.invocation_id
        story.answer(*story.pending, invocation_id=second)
        assert story.result.invocation_id == first != second


@pytest.mark.parametrize("replies", [[calls(("wait", {}))], []], ids=["paused", "completed"])
def test_text_for_an_invocation_that_has_its_message_is_refused_and_its_delta_too(
    replies: list[Reply],
) -> None:
    agent = llm("A", *replies, tools=[WAIT])
    with Story(agent) as story:
        story.say()
        id = story.result.invocation_id
        run = story.runner.run(**KEY, message="and?", invocation_id=id, state_delta={"key": 1})
        assert "its message already" in story.refused(AmbiguousResumeError, run)
        assert "key" not in story.runner.sessions.get(**KEY).state


def test_a_delta_for_an_invocation_that_is_over_is_refused() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        story.answer(call)
        id = story.result.invocation_id
        for run in (
            story.runner.resume(**KEY, invocation_id=id, state_delta={"key": 1}),
            story.runner.resume(**KEY, answers=[call.reply({"ok": 1})], state_delta={"key": 1}),
        ):
            assert "set_state" in story.refused(AmbiguousResumeError, run)


def test_an_answer_to_an_ordinary_call_is_one_to_no_call_that_waits() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    with Story(llm("A", calls(("look", {})), tools=[look])) as story:
        story.say()
        (call,) = [call for event in story.events for call in event.function_calls]
        story.refused(UnknownCallError, story.runner.resume(**KEY, answers={call.id: {"seen": "else"}}))


def test_text_beside_answers_that_were_given_before_is_refused() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        story.answer(call)
        message = Content("user", (*reply_to(call).parts, Part(text="and?")))
        story.refused(AmbiguousResumeError, story.runner.run(**KEY, message=message))


def test_an_answer_that_is_none_is_refused_by_the_call_itself() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        wrong: list[Any] = [[call], [(call.id, {})], {call.id: "yes"}]
        for given in wrong:
            with pytest.raises(TypeError, match="answer"):
                story.runner.resume(**KEY, answers=given)
        with pytest.raises(EncodingError):
            story.runner.resume(**KEY, answers={call.id: {"x": object()}})
        nothing: list[Any] = [None, [], {}]
        for none in nothing:
            with pytest.raises(ValueError, match="give answers"):
                story.runner.resume(**KEY, answers=none)


def test_an_answer_to_a_run_that_was_cancelled_is_refused_and_says_how_to_go_on() -> None:
    with Story(waiting("A")) as story:
        story.say()
        (call,) = story.pending
        receipt = story.runner.cancel(**KEY, reason="too late")
        assert (receipt.outcome, story.pending) == ("accepted", [])
        run = story.runner.resume(**KEY, answers=[call.reply({"ok": 1})])
        assert "invocation_id" in story.refused(UnknownCallError, run)


@pytest.mark.parametrize(
    ("after", "named"),
    [
        (SequentialAgent("other", sub_agents=[llm("A"), waiting("B"), llm("C")]), "agent 'seq' is not there"),
        (SequentialAgent("seq", sub_agents=[llm("A"), llm("C")]), "has no sub-agent 'B'"),
        (SequentialAgent("seq", sub_agents=[llm("A"), llm("B"), llm("C")]), "agent 'B' has no tool 'wait'"),
        (SequentialAgent("seq", sub_agents=[waiting("B"), llm("A"), llm("C")]), "in another order"),
    ],
)
def test_what_is_gone_or_stands_in_another_order_is_named_and_the_session_stays_usable(
    after: SequentialAgent, named: str
) -> None:
    log = MemoryEventLog()
    with Story(SequentialAgent("seq", sub_agents=[llm("A"), waiting("B"), llm("C")]), log) as story:
        story.say()
        (call,) = story.pending
    with Story(after, log) as story:
        said = story.refused(
            AgentTreeChangedError, story.runner.resume(**KEY, answers=[call.reply({"ok": 1})])
        )
        assert named in said
        assert story.pending == [call]
        story.say("a new message")
    back = SequentialAgent("seq", sub_agents=[llm("A"), llm("B", tools=[WAIT]), llm("C")])
    with Story(back, log) as story:
        assert story.answer(call)[-1] == "seq ends"


def test_what_has_come_to_the_tree_is_no_hindrance() -> None:
    log = MemoryEventLog()
    with Story(SequentialAgent("seq", sub_agents=[waiting("B"), llm("C")]), log) as story:
        story.say()
    agents = [llm("A"), llm("B", tools=[ASK, WAIT]), llm("C"), ParallelAgent("D")]
    with Story(SequentialAgent("seq", sub_agents=agents), log) as story:
        assert story.answer(*story.pending) == [
            *("B says B is done", "B ends", "seq at C", "C says C is done", "C ends"),
            *("seq at D", "D at", "D ends", "seq ends"),
        ]


def test_a_message_without_a_role_is_the_users() -> None:
    agent = waiting("A")
    with Story(resumable(agent)) as story:
        story.say(Content("", (Part(text="hi"),)))
        (call,) = story.pending
        part = Part(function_response=FunctionResponse(call.id, "wait", {"ok": 1}))
        assert story.say(Content("", (part,))) == ["A says A is done", "A ends"]
        assert {event.content.role for event in story.events if event.author == "user" and event.content} == {
            "user"
        }
    roles = [[content.role for content in request.contents] for request in model_of(agent).requests]
    assert roles == [["user"], ["user", "model", "user"]]
