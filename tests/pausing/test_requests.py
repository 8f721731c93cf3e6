"""What comes of each request to go on, in each state of a run, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps import APP, KEY, records
from intermission import (
    AmbiguousResumeError,
    Answer,
    App,
    CancelOutcome,
    Content,
    FunctionResponse,
    FunctionTool,
    IntermissionError,
    InvalidAnswerError,
    LlmAgent,
    MissingCallIdError,
    NothingToResumeError,
    NotResumableError,
    Part,
    PendingCall,
    Plugin,
    ResumabilityConfig,
    Run,
    Runner,
    RunRecord,
    RunResult,
    UnknownCallError,
)
from intermission.pending import CONFIRMATION
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog
from paying import PAY, Shop, paused


def respond(call: PendingCall, said: dict[str, Any]) -> Part:
    """The part of a message that answers a call, as ADK's clients write it."""
    name = CONFIRMATION if call.kind == "confirmation" else call.tool
    return Part(function_response=FunctionResponse(call.id, name, said))


def test_a_message_with_function_responses_answers_and_a_text_beside_them_is_stored_behind_them() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        result, (call,) = paused(runner)
        message = Content("user", (Part(text="But hurry!"), respond(call, {"confirmed": True})))
        run = runner.run(**KEY, message=message)
        assert run.answer() == "done"
        assert run.invocation_id == result.invocation_id
        said = [event for event in runner.sessions.events(**KEY) if event.author == "user"][-1]
    assert said.function_responses
    assert said.text == "But hurry!"
    assert said.content is not None
    assert said.content.parts[-1].text == "But hurry!"


STATES = ["paused", "answered in part", "completed", "stopped", "cancelled", "failed", "none"]


def in_state(runner: Runner, state: str) -> tuple[str, list[PendingCall]]:
    """Bring an invocation into a state; return its id, and the two calls that it has asked about."""
    if state == "none":
        return "e-none", []
    result, waiting = paused(runner)
    invocation = result.invocation_id or ""
    if state == "answered in part":
        runner.resume(**KEY, answers=[waiting[0].reply({"cm": 1})]).result()
    elif state == "cancelled":
        runner.cancel(**KEY, invocation_id=invocation)
    elif state != "paused":
        run = runner.resume(**KEY, answers=[waiting[0].reply({"cm": 1}), waiting[1].approve()])
        if state == "stopped":
            run.stop("enough")
        assert run.result().status == state
    return invocation, waiting


# What is asked → what comes of it in each of the states. A status alone is that of a run of which nothing is
# stored; with a plus sign something is.
TABLE: dict[str, Sequence[Any]] = {
    "the first answer": (
        *("paused+", "paused", "completed", "completed", UnknownCallError, "completed", UnknownCallError),
    ),
    "both answers": (
        *(
            "completed+",
            "completed+",
            "completed",
            "completed",
            UnknownCallError,
            "completed",
            UnknownCallError,
        ),
    ),
    "the id alone": (
        *("paused", "paused", "completed", "completed", "paused+", "completed+", NothingToResumeError),
    ),
    "the id and a text": (
        *(AmbiguousResumeError, AmbiguousResumeError, AmbiguousResumeError, AmbiguousResumeError),
        *(AmbiguousResumeError, AmbiguousResumeError, NothingToResumeError),
    ),
}


@pytest.mark.parametrize("asked", TABLE)
@pytest.mark.parametrize("state", STATES)
def test_what_comes_of_each_request_in_each_state(state: str, asked: str) -> None:
    expected = TABLE[asked][STATES.index(state)]
    fails = [error("validation", "no")] if state == "failed" else []
    shop = Shop(calls(("measure", {}), ("pay", {"amount": 3})), *fails)
    with shop.runner() as runner:
        invocation, waiting = in_state(runner, state)
        if not waiting:
            runner.run(**KEY, message="Hello").result()  # there is a session
            answers = [Answer("call-none", {"cm": 1})]
        else:
            answers = [waiting[0].reply({"cm": 1}), waiting[1].approve()]
        before = records(shop.log)
        if asked == "the id alone":
            run = runner.resume(**KEY, invocation_id=invocation)
        elif asked == "the id and a text":
            run = runner.run(**KEY, message="Well?", invocation_id=invocation)
        else:
            run = runner.resume(**KEY, answers=answers[: 1 if asked == "the first answer" else 2])
        if isinstance(expected, str):
            assert run.result().status == expected.removesuffix("+")
            assert (records(shop.log) != before) == expected.endswith("+")
        else:
            with pytest.raises(expected):
                run.start()
            assert records(shop.log) == before
        assert runner.run(**KEY, message="Are you there?").result().status == "completed"


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (Answer("", {"confirmed": True}), MissingCallIdError),
        (Answer("call-1", {"confirmed": True}), UnknownCallError),
        (None, InvalidAnswerError),
    ],
)
def test_an_answer_that_cannot_be_taken_is_a_typed_error_and_changes_nothing(
    answer: Answer | None, refusal: type[IntermissionError]
) -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, waiting = paused(runner)
        before = records(shop.log)
        with pytest.raises(refusal):
            runner.resume(**KEY, answers=[answer or Answer(waiting[0].id, {"yes": 1})]).start()
        assert records(shop.log) == before
        assert runner.pending(**KEY) == waiting


def test_answers_to_two_runs_at_once_are_refused_and_each_by_itself_is_taken() -> None:
    shop = Shop(PAY, PAY)
    with shop.runner() as runner:
        answers = [paused(runner)[1][0].approve() for _ in range(2)]
        with pytest.raises(AmbiguousResumeError, match="2 invocations"):
            runner.resume(**KEY, answers=answers).start()
        for answer in answers:
            assert runner.resume(**KEY, answers=[answer]).answer() == "done"


def test_an_app_that_is_not_resumable_says_so_at_the_call_and_one_in_which_runs_pause_is() -> None:
    with Runner(App(APP, Shop().agent()), log=MemoryEventLog()) as runner:
        with pytest.raises(NotResumableError):
            runner.resume(**KEY, answers=[Answer("call-1", {})])
        with pytest.raises(NotResumableError):
            runner.run(**KEY, message="hi", invocation_id="e-1")


def test_a_cancel_closes_a_pause_and_going_on_with_the_run_by_its_id_opens_it_again() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        result, (call,) = paused(runner)
        runner.cancel(**KEY, reason="changed my mind")
        assert runner.pending(**KEY) == []
        with pytest.raises(UnknownCallError, match="ended cancelled"):
            runner.resume(**KEY, answers=[call.approve()]).start()
        assert runner.resume(**KEY, invocation_id=result.invocation_id).result().status == "paused"
        assert runner.resume(**KEY, answers=[call.approve()]).answer() == "done"


@pytest.mark.parametrize("take_over", [False, True])
def test_a_cancel_closes_a_pause_beside_the_run_that_is_under_way(take_over: bool) -> None:
    gate, ends = Gate(), list[tuple[str | None, str]]()

    class Told(Plugin):
        def on_run_end(self, run: Run | RunRecord, result: RunResult) -> None:
            ends.append((run.invocation_id, result.status))

    tool = FunctionTool(lambda: "paid", name="pay", require_confirmation=True)
    model = ScriptedModel(calls(("pay", {})), text(gate, "late"), default="done")
    agent = LlmAgent("agent", model, tools=[tool])
    app = App(APP, agent, plugins=[Told("told")], resumability_config=ResumabilityConfig(is_resumable=True))
    with Runner(app, log=MemoryEventLog()) as runner:
        older = runner.run(**KEY, message="Pay.").result()
        run = runner.run(**KEY, message="What time is it?").start()
        gate.arrived()
        receipt = runner.cancel(
            **KEY, invocation_id=older.invocation_id, reason="too late", take_over=take_over
        )
        assert (receipt.outcome, receipt.durable) == (CancelOutcome.ACCEPTED, True)
        assert runner.pending(**KEY) == []
        assert runner.cancel(**KEY, invocation_id=older.invocation_id).outcome == "nothing_running"
        gate.open()
        assert run.answer() == "late"
        with pytest.raises(UnknownCallError, match="ended cancelled"):
            runner.resume(**KEY, answers=[older.pending[0].approve()]).result()
        assert [(one.status, one.reason) for one in runner.sessions.runs(**KEY)] == [
            ("cancelled", "too late"),
            ("completed", ""),
        ]
        view = [event.text for event in runner.sessions.events(**KEY) if event.text]
        assert view == ["Pay.", "What time is it?", "late"]
    ids = (older.invocation_id, run.invocation_id)
    assert sorted(ends) == sorted([(ids[0], "paused"), (ids[0], "cancelled"), (ids[1], "completed")])


def test_an_answer_sent_again_to_a_cancelled_run_is_an_empty_run_that_waits_for_nothing() -> None:
    shop = Shop(calls(("measure", {}), ("pay", {"amount": 3})))
    with shop.runner() as runner:
        invocation, (first, _) = in_state(runner, "paused")
        again = [first.reply({"cm": 1})]
        assert runner.resume(**KEY, answers=again).result().status == "paused"
        runner.cancel(**KEY, invocation_id=invocation)
        before = records(shop.log)
        result = runner.resume(**KEY, answers=again).result()
        assert (result.status, result.pending) == ("completed", ())
        with pytest.raises(AmbiguousResumeError, match="state_delta"):
            runner.resume(**KEY, answers=again, state_delta={"size": 1}).start()
        assert records(shop.log) == before
        assert runner.resume(**KEY, invocation_id=invocation).result().status == "paused"
