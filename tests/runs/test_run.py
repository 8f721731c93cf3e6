import threading
from collections.abc import Iterator

import pytest

from apps import KEY, app_with, kinds
from intermission import (
    AlreadyConsumedError,
    Content,
    Event,
    LlmCallsLimitExceededError,
    ModelError,
    RunConfig,
    Runner,
    RunStatus,
    Usage,
)
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ManualClock, ScriptedModel, calls, error, text
from intermission_storage import LogClosedError, MemoryEventLog


def look(where: str) -> dict[str, str]:
    """Look."""
    return {"seen": where}


def test_a_run_does_nothing_before_it_is_started() -> None:
    log, model = MemoryEventLog(), ScriptedModel("Hello")
    with Runner(app_with(model), log=log) as runner:
        run = runner.run(**KEY, message="hi")

        assert run.state == "created"
        assert run.status is None
        assert run.invocation_id is None
        run.cancel()

    assert model.requests == []
    assert log.streams() == []


def test_iterating_a_run_starts_it() -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        assert [event.text for event in run] == ["Hello"]
        assert run.status is RunStatus.COMPLETED


def test_starting_twice_runs_once() -> None:
    model = ScriptedModel("Hello")
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        run.start().start()
        assert run.answer() == run.answer() == "Hello"

    assert len(model.requests) == 1


def test_a_started_run_has_its_beginning_in_the_log() -> None:
    gate, log = Gate(), MemoryEventLog()
    with Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        assert kinds(log) == ["session_created", "run_started", "event"]
        assert run.invocation_id is not None
        gate.open()


def test_no_event_of_a_started_run_is_missed_by_a_consumer_who_comes_late() -> None:
    with Runner(app_with(ScriptedModel(text("Hel", "lo"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True)).start()
        run.result()
        assert [event.text for event in run] == ["Hel", "lo", "Hello"]


def test_a_second_consumer_of_events_is_an_error_and_changes_nothing() -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        events = iter(run)
        first = next(events)
        with pytest.raises(AlreadyConsumedError, match="one stream"):
            next(iter(run))
        assert [first, *events] == run.result().events[1:]


def test_any_number_of_threads_may_wait_for_one_result() -> None:
    gate, results = Gate(), list[str]()
    with Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        waiters = [threading.Thread(target=lambda: results.append(run.answer())) for _ in range(8)]
        for waiter in waiters:
            waiter.start()
        gate.arrived()
        gate.open()
        for waiter in waiters:
            waiter.join(30)

    assert results == ["Hello"] * 8


def test_a_result_that_is_not_there_in_time_leaves_the_run_going() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text(gate, "Hello"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi").start()
        with pytest.raises(TimeoutError):
            run.result(timeout=0)
        gate.open()
        assert run.answer() == "Hello"


def test_iterating_a_failed_run_raises_its_error_after_its_last_event() -> None:
    model = ScriptedModel(calls(("look", {"where": "here"})), error("service", "down"))
    seen: list[Event] = []
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(ModelError, match="down"):
            seen.extend(run)
        with pytest.raises(ModelError, match="down"):
            run.answer()

    assert len(seen) == 2
    assert run.status is RunStatus.FAILED


def test_leaving_the_loop_leaves_a_run_going_that_belongs_to_nobody() -> None:
    gate = Gate()
    with Runner(app_with(ScriptedModel(text("Hel", gate, "lo"))), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True)).start()
        for _ in run:
            break
        gate.open()
        assert run.answer() == "Hello"


def test_a_result_holds_text_usage_events_and_the_number_of_the_last_record() -> None:
    model = ScriptedModel(
        calls(("look", {"where": "here"}), usage=Usage(1, 2, 3)), text("Done", usage=Usage(4, 5, 9))
    )
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()

        assert result.text == "Done"
        assert result.usage == Usage(5, 7, 12)
        assert [event.author for event in result.events] == ["user", "agent", "agent", "agent"]
        assert result.last_seq == 9  # the call's start and end have records, too
        assert result.error is None


def test_usage_that_a_model_does_not_report_makes_the_sum_incomplete() -> None:
    class Silent(ScriptedModel):
        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            for response in super().generate(request):
                yield ModelResponse(content=response.content)

    with Runner(app_with(Silent("Hello")), log=MemoryEventLog()) as runner:
        assert not runner.run(**KEY, message="hi").result().usage.complete


def test_usage_of_a_failed_run_is_incomplete() -> None:
    with Runner(app_with(ScriptedModel(error("service"))), log=MemoryEventLog()) as runner:
        assert not runner.run(**KEY, message="hi").result().usage.complete


def test_events_of_a_result_need_an_open_log() -> None:
    log = MemoryEventLog()
    with Runner(app_with(ScriptedModel("Hello")), log=log) as runner:
        result = runner.run(**KEY, message="hi").result()
    log.close()
    with pytest.raises(LogClosedError):
        _ = result.events


def test_the_limit_of_model_calls_fails_the_run_and_leaves_every_call_answered() -> None:
    model = ScriptedModel(default=calls(("look", {"where": "here"})))
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi", config=RunConfig(max_llm_calls=3)).result()
        with pytest.raises(LlmCallsLimitExceededError, match="limit of 3 model calls"):
            result.raise_for_status()

    assert len(model.requests) == 3
    made = [call.id for event in result.events for call in event.function_calls]
    answered = [response.id for event in result.events for response in event.function_responses]
    assert made == answered
    assert len(made) == 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_zero_or_less_is_no_limit(limit: int) -> None:
    model = ScriptedModel(*[calls(("look", {"where": "here"}))] * 5, "done")
    config = RunConfig(max_llm_calls=limit)
    with Runner(app_with(model, look), log=MemoryEventLog(), config=config) as runner:
        assert runner.run(**KEY, message="hi").answer() == "done"


def test_events_are_stamped_by_the_runners_clock() -> None:
    clock = ManualClock(start=100.0)
    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog(), clock=clock) as runner:
        runner.run(**KEY, message="a").result()
        clock.advance(5)
        runner.run(**KEY, message="b").result()
        stamps = [event.timestamp for event in runner.sessions.events(**KEY)]

    assert stamps == [100.0, 100.0, 105.0, 105.0]


def test_a_message_may_be_content() -> None:
    with Runner(app_with(ScriptedModel("Hello")), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message=Content.user("hi")).result()
        assert result.events[0].content == Content.user("hi")
