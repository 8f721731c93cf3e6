"""What `docs/pausing.md` promises of questions and answers, each promise by itself."""

import threading
from typing import Any

import pytest

from apps import APP, KEY, records
from intermission import (
    Answer,
    App,
    Content,
    Event,
    FunctionResponse,
    FunctionTool,
    LlmAgent,
    LlmCallsLimitExceededError,
    LongRunningFunctionTool,
    Part,
    RunConfig,
    Runner,
    ToolContext,
)
from intermission.pending import CONFIRMATION
from intermission.testing import ScriptedModel, calls
from intermission_storage import LmdbEventLog, MemoryEventLog
from paying import PAY, RESUMABLE, Shop, paused


def test_a_question_is_stored_before_it_is_shown_and_may_be_answered_from_inside_its_handler() -> None:
    shop, runs = Shop(PAY), list[Any]()
    with shop.runner() as runner:

        def handle(event: Event) -> None:
            if event.long_running_tool_ids:
                assert event.seq in [one.seq for one in records(shop.log) if one.kind == "event"]
                answers = [Answer(event.long_running_tool_ids[0], {"confirmed": True})]
                runs.append(runner.resume(**KEY, answers=answers).start())

        run = runner.run(**KEY, message="Pay!")
        over = threading.Event()
        run.subscribe(handle, on_finally=lambda result: over.set())
        assert run.result().status == "paused"
        assert over.wait(30)
        assert runs[0].result().status == "completed"
    assert shop.paid == [(3, None)]


def test_a_paused_run_is_over_and_the_session_takes_other_messages_meanwhile() -> None:
    shop = Shop(PAY, "It is sunny.", "Paid.")
    with shop.runner() as runner:
        _, waiting = paused(runner)
        assert runner.active() == []
        assert runner.run(**KEY, message="And the weather?").answer() == "It is sunny."
        assert runner.resume(**KEY, answers=[waiting[0].approve()]).answer() == "Paid."


def test_pending_lists_after_a_restart_what_a_screen_needs_to_ask(tmp_path: Any) -> None:
    shop = Shop(PAY)
    with LmdbEventLog(tmp_path / "log") as log:
        shop.log = log
        with shop.runner() as runner:
            result, before = paused(runner)
    with LmdbEventLog(tmp_path / "log") as log:
        shop.log = log
        with shop.runner() as runner:
            assert runner.pending(**KEY) == before
            (call,) = before
    assert (call.tool, call.arguments, call.kind, call.agent) == (
        "pay",
        {"amount": 3},
        "confirmation",
        "clerk",
    )
    assert call.invocation_id == result.invocation_id
    assert call.hint == "May the tool pay be called with these arguments?"
    assert call.id != call.function_call_id


def test_the_model_is_asked_once_when_every_call_of_the_turn_is_answered_in_whatever_order() -> None:
    shop = Shop(calls(("measure", {"number": 1}), ("pay", {"amount": 3}), ("measure", {"number": 2})))
    with shop.runner() as runner:
        _, (one, two, leave) = paused(runner)
        for answer, left in ((two.reply({"cm": 2}), [one, leave]), (leave.approve({"from": 7}), [one])):
            result = runner.resume(**KEY, answers=[answer]).result()
            assert result.status == "paused"
            for pending in (result.pending, runner.pending(**KEY)):
                assert {call.id for call in pending} == {call.id for call in left}
        assert len(shop.model.requests) == 1
        assert runner.resume(**KEY, answers={one.id: {"cm": 1}}).answer() == "done"
    assert len(shop.model.requests) == 2
    told = shop.model.requests[1].contents[-1].function_responses
    assert [answer.response for answer in told] == [{"cm": 1}, {"paid": 3}, {"cm": 2}]
    assert shop.paid == [(3, {"from": 7})]


def test_a_call_that_is_approved_is_made_with_the_arguments_shown_and_not_asked_for_again() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        run = runner.resume(**KEY, answers=[call.approve(answered_by="eve")])
        first = next(iter(run))
        run.result()
    (response,) = first.function_responses
    assert (response.id, response.response) == (call.function_call_id, {"paid": 3})
    assert len(shop.model.requests) == 2
    (kept,) = [one for one in records(shop.log) if one.kind == "answer"]
    assert (kept.data["callId"], kept.data["answeredBy"]) == (call.id, "eve")


def test_a_call_that_is_rejected_is_not_made_and_the_model_is_told_why() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.reject("too much")]).answer() == "done"
    (told,) = shop.model.requests[1].contents[-1].function_responses
    assert told.response["status"] == "rejected"
    assert "too much" in told.response["message"]
    assert shop.paid == []


def test_an_answer_is_used_once_however_often_and_from_wherever_it_comes() -> None:
    shop, statuses = Shop(PAY), list[str]()
    with shop.runner() as runner:
        _, (call,) = paused(runner)

        def give() -> None:
            result = runner.resume(**KEY, answers=[call.approve()]).result()
            statuses.append(result.status)

        threads = [threading.Thread(target=give) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        before = records(shop.log)
        give()
    with shop.runner() as runner:
        give_again = runner.resume(**KEY, answers=[call.approve()])
        assert list(give_again) == []
        assert give_again.result().status == "completed"
    assert records(shop.log) == before
    assert statuses == ["completed"] * 3
    assert shop.paid == [(3, None)]


def test_a_runner_that_knows_the_session_sees_what_another_one_has_done_since() -> None:
    shop = Shop("hello", PAY)
    with shop.runner() as one, shop.runner() as other:
        one.run(**KEY, message="hi").answer()
        _, (call,) = paused(other)
        assert one.resume(**KEY, answers=[call.approve()]).answer() == "done"
        before = records(shop.log)
        assert other.resume(**KEY, answers=[call.approve()]).result().status == "completed"
    assert records(shop.log) == before
    assert shop.paid == [(3, None)]


def test_a_tool_may_ask_from_inside_and_is_called_again_with_what_was_said() -> None:
    seen = list[Any]()

    def pay(amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Pay."""
        said = tool_context.confirmation
        seen.append(said and (said.confirmed, said.payload))
        if said is None:
            tool_context.request_confirmation("From which account?", {"accounts": [1, 2]})
            return {}
        return {"from": said.payload} if said.confirmed else {"refused": said.hint}

    agent = LlmAgent("clerk", ScriptedModel(PAY, "done", PAY, "done"), tools=[pay])
    app = App(APP, agent, resumability_config=RESUMABLE)
    with Runner(app, log=MemoryEventLog()) as runner:
        _, (call,) = paused(runner)
        assert (call.hint, call.payload) == ("From which account?", {"accounts": [1, 2]})
        assert runner.resume(**KEY, answers=[call.approve(2)]).answer() == "done"
        _, (call,) = paused(runner)
        assert runner.resume(**KEY, answers=[call.reject("never")]).answer() == "done"
    assert seen == [None, (True, 2), None, (False, None)]


@pytest.mark.parametrize(("amount", "status"), [(3, "completed"), (30, "paused")])
def test_a_function_of_the_arguments_says_which_calls_need_leave(amount: int, status: str) -> None:
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    def large(amount: int) -> bool:
        return amount > 20

    tool = FunctionTool(pay, require_confirmation=large)
    agent = LlmAgent("clerk", ScriptedModel(calls(("pay", {"amount": amount})), default="done"), tools=[tool])
    with Runner(App(APP, agent, resumability_config=RESUMABLE), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="Pay!").result().status == status


def test_a_long_running_tool_that_returns_something_has_answered_and_pauses_nothing() -> None:
    def measure(number: int) -> dict[str, str] | None:
        """Measure."""
        return {"error": "give a number above 0"} if number < 1 else None

    model = ScriptedModel(
        calls(("measure", {"number": 0})), calls(("measure", {"number": 1})), default="done"
    )
    agent = LlmAgent("clerk", model, tools=[LongRunningFunctionTool(measure)])
    with Runner(App(APP, agent, resumability_config=RESUMABLE), log=MemoryEventLog()) as runner:
        _, (call,) = paused(runner)
        assert call.arguments == {"number": 1}
    assert len(model.requests) == 2


def test_in_an_app_that_is_not_resumable_the_next_message_gives_leave() -> None:
    shop = Shop(PAY, "I need your leave.", "Paid.")
    with Runner(App(APP, shop.agent()), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="Pay!")
        assert run.answer() == "I need your leave."
        (question,) = [
            call
            for event in run.result().events
            for call in event.function_calls
            if call.name == CONFIRMATION
        ]
        yes = Part(function_response=FunctionResponse(question.id, CONFIRMATION, {"confirmed": True}))
        assert runner.run(**KEY, message=Content("user", (yes,))).answer() == "Paid."
        assert runner.pending(**KEY) == []
    assert shop.paid == [(3, None)]


def test_the_model_calls_of_a_run_are_counted_over_its_pauses() -> None:
    shop = Shop(PAY)
    with shop.runner() as runner:
        _, (call,) = paused(runner)
        run = runner.resume(**KEY, answers=[call.approve()], config=RunConfig(max_llm_calls=1))
        with pytest.raises(LlmCallsLimitExceededError):
            run.answer()
    assert len(shop.model.requests) == 1
