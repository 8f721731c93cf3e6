"""Whatever goes wrong fails the run that it belongs to, and nothing else."""

from typing import Any

import pykka
import pytest

from apps import KEY, Slow, app_of, app_with, kinds, records, runs_in_order
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    FunctionCall,
    Runner,
    RunStatus,
    Usage,
)
from intermission.agents.effects import Steps
from intermission.kernel.actor import ActorCrashError
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import FaultyLog, Gate, ScriptedModel
from intermission_storage import EncodingError, MemoryEventLog


@pytest.mark.parametrize("kind", ["event", "run_ended"])
def test_an_error_that_no_log_should_raise_fails_the_run_and_not_the_session(kind: str) -> None:
    gate, log = Gate(), FaultyLog()
    with Runner(app_of(Slow(gate)), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        waiting = runner.run(**KEY, message="b").start()
        log.refuse(kind, ZeroDivisionError("a bug in a log"))
        gate.open()
        assert isinstance(run.result().error, ZeroDivisionError)
        assert waiting.answer() == "two"


class Unspeakable(Exception):
    """An exception that cannot tell its text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("raised", [Unspeakable(), SystemExit(Unspeakable())])
def test_an_exception_that_cannot_tell_its_text_ends_its_run_like_any_other(raised: BaseException) -> None:
    class Failing(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            if context.events[-1].text == "a":
                raise raised
            yield context.event(self.name, content=Content.model("fine"))

    log = MemoryEventLog()
    with Runner(app_of(Failing("failing")), log=log) as runner:
        assert runner.run(**KEY, message="a").result(30).status is RunStatus.FAILED
        assert runner.run(**KEY, message="b").answer(30) == "fine"

    assert len(runs_in_order(log)) == 2


class StoppedClock:
    """A clock that raises from some reading on."""

    def __init__(self, readings: int) -> None:
        self.readings = readings

    def time(self) -> float:
        self.readings -= 1
        if self.readings < 0:
            raise OSError("the clock is gone")
        return 1.0

    def monotonic(self) -> float:
        return 1.0


@pytest.mark.parametrize("readings", range(3))
def test_a_clock_that_raises_fails_the_run_wherever_it_does(readings: int) -> None:
    clock = StoppedClock(readings)
    with Runner(app_with(ScriptedModel("one", "two")), log=MemoryEventLog(), clock=clock) as runner:
        run = runner.run(**KEY, message="a")
        with pytest.raises(OSError, match="the clock is gone"):
            run.answer(30)
        clock.readings = 100
        assert runner.run(**KEY, message="b").result(30).status is RunStatus.COMPLETED


@pytest.mark.parametrize("kind", ["event", "run_ended"])
def test_a_base_exception_below_the_session_fails_the_run_and_not_the_session(kind: str) -> None:
    gate, log = Gate(), FaultyLog()
    with Runner(app_of(Slow(gate)), log=log) as runner:
        run = runner.run(**KEY, message="a").start()
        log.refuse(kind, KeyboardInterrupt())
        gate.open()
        assert isinstance(run.result(30).error, ActorCrashError)
        assert runner.run(**KEY, message="b").answer(30) == "two"


def test_an_event_whose_values_raise_fails_its_run_and_not_the_session() -> None:
    class Rude(dict[str, Any]):
        def items(self) -> Any:
            raise SystemExit("rude")

    class Careless(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            if context.events[-1].text == "a":
                yield context.event(
                    self.name, content=Content.model(calls=[FunctionCall("1", "f", Rude(x=1))])
                )
            yield context.event(self.name, content=Content.model("fine"))

    with Runner(app_of(Careless("careless")), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="a").result(30).status is RunStatus.FAILED
        assert runner.run(**KEY, message="b").answer(30) == "fine"


@pytest.mark.scenario("D12")
def test_a_value_that_the_log_cannot_write_fails_its_run_with_the_cause_in_the_log() -> None:
    class Careless(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            if context.events[-1].text == "a":
                context.state["handle"] = object()
            yield context.event(self.name, content=Content.model("fine"))

    log = MemoryEventLog()
    with Runner(app_of(Careless("careless")), log=log) as runner:
        run = runner.run(**KEY, message="a")
        with pytest.raises(EncodingError, match="handle"):
            run.answer(30)
        assert run.status is RunStatus.FAILED
        assert runner.run(**KEY, message="b").answer(30) == "fine"

    (failed, _) = [record.data for record in records(log) if record.kind == "run_ended"]
    assert (failed["status"], failed["error"]["type"]) == ("failed", "EncodingError")
    assert "handle" in failed["error"]["message"]


def test_what_others_do_to_all_actors_of_pykka_does_not_reach_the_sessions() -> None:
    class Stranger(pykka.ThreadingActor):
        use_daemon_thread = True

        def on_receive(self, message: object) -> None:
            raise SystemExit("pykka stops all actors for this")

    with Runner(app_with(ScriptedModel(default="ok")), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="a").answer(30) == "ok"
        stranger = Stranger.start()
        stranger.tell("go")
        assert stranger.actor_stopped.wait(30)
        pykka.ActorRegistry.stop_all()
        assert runner.run(**KEY, message="b").answer(30) == "ok"


def test_usage_that_is_no_number_fails_the_run_before_the_event_is_stored() -> None:
    class Odd(ScriptedModel):
        def generate(self, request: ModelRequest) -> Any:
            tokens: Any = "12"
            yield ModelResponse(content=Content.model("hello"), usage=Usage(tokens))

    log = MemoryEventLog()
    with Runner(app_with(Odd()), log=log) as runner:
        run = runner.run(**KEY, message="hi")
        with pytest.raises(TypeError):
            list(run)

    assert kinds(log) == ["session_created", "run_started", "event", "run_ended"]
