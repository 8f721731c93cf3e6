"""`overlap_model_calls`: a model is asked while the event before it is being stored; nothing else is done."""

import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from apps import KEY, app_of, app_with, kinds
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    Event,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.agents.effects import Steps, call_model, emit
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import FaultyLog, Gate, ScriptedModel, calls, text
from intermission_storage import LogFullError

PATIENCE = 30.0
OVERLAP = RunConfig(overlap_model_calls=True, streaming=True)


def look(where: str) -> dict[str, str]:
    """Look."""
    return {"seen": where}


class Announced(ScriptedModel):
    """Lets the test wait until it was asked so many times, and until it has given a whole answer."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.asked = [threading.Event() for _ in replies]
        self.answered = [threading.Event() for _ in replies]
        self._count = 0

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        index, self._count = self._count, self._count + 1
        self.asked[index].set()
        for response in super().generate(request):
            if not response.partial:
                self.answered[index].set()
            yield response


def is_response(_: str, records: Any) -> bool:
    """Whether a batch ends with the responses to calls."""
    return "functionResponse" in str(records[-1].data)


def asked_again(model: Announced, log: FaultyLog) -> tuple[Any, Gate]:
    """A runner's way to the second request, and the gate at which the append before it is held."""
    return app_with(model, look), log.hold(is_response)


def test_the_model_is_asked_while_the_event_before_is_being_stored_and_the_request_holds_it() -> None:
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), text("do", "ne"))
    app, append = asked_again(model, log)
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        append.arrived()
        assert model.asked[1].wait(PATIENCE)
        append.open()
        assert run.answer(PATIENCE) == "done"

    (response,) = model.requests[1].contents[-1].function_responses
    assert response.response == {"seen": "here"}


def test_without_it_no_model_is_asked_before_the_event_is_stored() -> None:
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), "done")
    app, append = asked_again(model, log)
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi").start()
        append.arrived()
        asked = model.asked[1].is_set()
        append.open()
        assert run.answer(PATIENCE) == "done"

    assert not asked


def test_what_the_model_says_is_held_until_the_event_is_stored_and_then_shown_in_order() -> None:
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), text("do", "ne"))
    app, append = asked_again(model, log)
    shown = list[Event]()
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP)
        consumer = threading.Thread(target=lambda: shown.extend(run))
        consumer.start()
        assert model.answered[1].wait(PATIENCE)
        before = len(shown)
        append.open()
        consumer.join(PATIENCE)

    assert before <= 1
    assert [(event.partial, event.delta) for event in shown] == [
        (False, ""),
        (False, ""),
        (True, "do"),
        (True, "ne"),
        (False, ""),
    ]
    assert shown[1].function_responses
    assert shown[-1].text == "done"


def test_held_text_is_shown_when_the_event_is_stored_and_not_only_with_the_next_piece() -> None:
    pause = Gate()
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), text("do", pause, "ne"))
    app, append = asked_again(model, log)
    with Runner(app, log=log) as runner:
        events = iter(runner.run(**KEY, message="hi", config=OVERLAP))
        next(events)
        pause.arrived()
        append.open()
        assert next(events).function_responses
        assert next(events).delta == "do"
        pause.open()
        assert [event.delta for event in events] == ["ne", ""]


def test_tools_never_begin_before_their_calls_are_stored() -> None:
    log, began = FaultyLog(), list[str]()

    def note(what: str) -> None:
        began.append(what)

    model = Announced(calls(("note", {"what": "a"})), calls(("note", {"what": "b"})), "done")
    append = log.hold(is_response)
    second = log.hold(lambda _, records: "'what': 'b'" in str([record.data for record in records]))
    with Runner(app_with(model, note), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        assert model.answered[1].wait(PATIENCE)
        assert began == ["a"]
        append.open()
        second.arrived()
        assert began == ["a"]
        second.open()
        assert run.answer(PATIENCE) == "done"

    assert began == ["a", "b"]


def test_if_the_event_is_refused_the_answer_is_dropped_and_the_run_fails_with_the_logs_error() -> None:
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), "done")
    shown = list[Event]()
    log.refuse(is_response, LogFullError("no room"))
    app, append = asked_again(model, log)
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP)
        consumer = threading.Thread(target=lambda: _take(run, shown))
        consumer.start()
        assert model.answered[1].wait(PATIENCE)
        append.open()
        with pytest.raises(LogFullError):
            run.answer(PATIENCE)
        consumer.join(PATIENCE)
        found = kinds(log)

    assert [bool(event.function_calls) for event in shown] == [True]
    assert found[-1] == "run_ended"


def _take(run: Any, shown: list[Event]) -> None:
    with pytest.raises(LogFullError):
        shown.extend(run)


def test_a_refusal_gives_up_a_model_that_has_not_answered() -> None:
    pause = Gate()
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), text(pause, "done"))
    log.refuse(is_response, LogFullError("no room"))
    app, append = asked_again(model, log)
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        pause.arrived()
        append.open()
        with pytest.raises(LogFullError):
            run.answer(PATIENCE)
        assert not run.wait_terminated(0)
        pause.open()
        assert run.wait_terminated(PATIENCE)


class Careful(BaseAgent):
    """Asks a model after an event, and says which error that raised."""

    def __init__(self, model: ScriptedModel, *, promises: bool = True) -> None:
        super().__init__("careful")
        self.model = model
        self.promises = promises
        self.saw: list[tuple[Any, list[str], dict[str, Any]]] = []

    def run(self, context: AgentContext) -> Steps:
        context.state["n"] = 1
        stored = yield from emit(
            context.event(self.name, content=Content.model("first")), calls_model=self.promises
        )
        self.saw.append((stored.seq, [event.text for event in context.events], dict(context.state)))
        try:
            yield from self.ask()
        except LogFullError:
            yield from emit(context.event(self.name, content=Content.model("no room")))
        self.saw.append((None, [event.text for event in context.events], dict(context.state)))

    def ask(self) -> Generator[Any, Any, Any]:
        return call_model(self.model, ModelRequest(contents=(Content.user("hi"),)), self.name)


def is_first(_: str, records: Any) -> bool:
    """Whether a batch ends with the careful agent's first event."""
    return "first" in str(records[-1].data)


def test_the_error_of_the_log_is_raised_at_the_yield_of_the_model_call() -> None:
    log, agent = FaultyLog(), Careful(ScriptedModel("answer"))
    log.refuse(is_first, LogFullError("no room"))
    with Runner(app_of(agent), log=log) as runner:
        result = runner.run(**KEY, message="hi", config=OVERLAP).result(PATIENCE)
        texts = [event.text for event in result.events]

    assert result.status is RunStatus.COMPLETED
    assert texts == ["hi", "no room"]
    assert agent.saw[-1] == (None, ["hi", "no room"], {})


def test_an_agent_sees_the_event_and_its_state_before_they_are_stored() -> None:
    log, agent = FaultyLog(), Careful(Announced("answer"))
    append = log.hold(is_first)
    with Runner(app_of(agent), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        append.arrived()
        assert isinstance(agent.model, Announced)
        assert agent.model.asked[0].wait(PATIENCE)
        assert agent.saw == [(None, ["hi", "first"], {"n": 1})]
        append.open()
        run.answer(PATIENCE)

    assert agent.saw[-1] == (None, ["hi", "first"], {"n": 1})


def test_an_agent_that_does_not_promise_a_model_call_goes_on_after_its_event_is_stored() -> None:
    log, agent = FaultyLog(), Careful(ScriptedModel("answer"), promises=False)
    append = log.hold(is_first)
    with Runner(app_of(agent), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        append.arrived()
        assert agent.saw == []
        append.open()
        run.answer(PATIENCE)

    assert agent.saw[0][0] is not None


class Breaking(BaseAgent):
    """Promises a model call, and does something else."""

    def run(self, context: AgentContext) -> Steps:
        yield from emit(context.event(self.name, content=Content.model("first")), calls_model=True)
        second = yield from emit(context.event(self.name, content=Content.model("second")))
        assert second.seq is not None
        yield from emit(context.event(self.name, content=Content.model("third")), calls_model=True)


def test_whoever_breaks_the_promise_waits_for_the_event_first() -> None:
    log = FaultyLog()
    append = log.hold(is_first)
    with Runner(app_of(Breaking("breaking")), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        append.arrived()
        batches = log.batches
        append.open()
        result = run.result(PATIENCE)
        texts = [event.text for event in result.events]

    assert batches == 2
    assert texts == ["hi", "first", "second", "third"]


@pytest.mark.parametrize("answered", [False, True])
def test_a_cancel_while_the_event_is_being_stored_ends_the_run(answered: bool) -> None:
    pause = Gate()
    log, model = FaultyLog(), Announced(calls(("look", {"where": "here"})), text("do", pause, "ne"))
    app, append = asked_again(model, log)
    shown = list[Event]()
    with Runner(app, log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP)
        consumer = threading.Thread(target=lambda: shown.extend(run))
        consumer.start()
        pause.arrived()
        if answered:
            pause.open()
            assert model.answered[1].wait(PATIENCE)
        run.cancel("enough")
        append.open()
        assert run.result(PATIENCE).status is RunStatus.CANCELLED
        consumer.join(PATIENCE)
        pause.open()
        assert run.wait_terminated(PATIENCE)

    assert not any(event.partial for event in shown)


def test_a_stop_while_tools_run_is_heeded_before_the_model_is_asked() -> None:
    log, gate = FaultyLog(), Gate()

    def wait() -> None:
        gate.wait()

    model = Announced(calls(("wait", {})), "never")
    with Runner(app_with(model, wait), log=log) as runner:
        run = runner.run(**KEY, message="hi", config=OVERLAP).start()
        gate.arrived()
        run.stop("enough")
        gate.open()
        assert run.result(PATIENCE).status is RunStatus.STOPPED

    assert len(model.requests) == 1
