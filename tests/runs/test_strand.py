"""What an agent may yield, and what becomes of its errors and its tools'."""

import logging
import math
from dataclasses import replace
from typing import Any

import pytest

from apps import KEY, app_of, app_with
from intermission import (
    AgentContext,
    BaseAgent,
    Content,
    ModelError,
    RunConfig,
    Runner,
    RunStatus,
    ToolContext,
)
from intermission.agents.effects import Effect, Emit, Fork, RunAgent, Steps, call_model, emit
from intermission.kernel.actor import ActorCrashError
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import Gate, ScriptedModel, calls, error, text
from intermission_storage import EncodingError, MemoryEventLog


def run_once(agent: BaseAgent) -> Any:
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        return runner.run(**KEY, message="hi").result()


def responses(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was told of its calls, in its last request."""
    return [
        dict(response.response)
        for content in model.requests[-1].contents
        for response in content.function_responses
    ]


def test_an_agent_of_ones_own_may_yield_plain_events() -> None:
    class Echo(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield context.event(self.name, content=Content.model(context.events[-1].text))

    assert run_once(Echo("echo")).text == "hi"


def test_an_agent_may_handle_the_error_of_an_effect() -> None:
    class Careful(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            request = ModelRequest(contents=(Content.user("hi"),))
            try:
                yield from call_model(ScriptedModel(error("service")), request, self.name)
            except ModelError as problem:
                yield context.event(self.name, content=Content.model(f"sorry: {problem.kind}"))

    assert run_once(Careful("careful")).text == "sorry: service"


def test_an_agents_exception_fails_its_run_and_leaves_the_session_usable() -> None:
    class Moody(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            if context.events[-1].text == "a":
                raise ValueError("not today")
            yield context.event(self.name, content=Content.model("fine"))

    with Runner(app_of(Moody("moody")), log=MemoryEventLog()) as runner:
        with pytest.raises(ValueError, match="not today"):
            runner.run(**KEY, message="a").answer()
        assert runner.run(**KEY, message="b").answer() == "fine"


def test_a_system_exit_of_user_code_fails_the_run_and_does_not_leave_through_the_caller() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with Runner(
        app_with(ScriptedModel(calls(("leave", {})), default="ok"), leave), log=MemoryEventLog()
    ) as runner:
        with pytest.raises(ActorCrashError, match="SystemExit: 3"):
            runner.run(**KEY, message="a").answer()
        assert runner.run(**KEY, message="b").answer() == "ok"


def test_yielding_something_else_than_an_effect_fails_the_run_by_its_name() -> None:
    class Odd(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield "hello"  # type: ignore[misc]  # this is what must fail

    result = run_once(Odd("odd"))

    assert result.status is RunStatus.FAILED
    assert "'hello', which is no effect" in str(result.error)


NOTHING: Any = None


@pytest.mark.parametrize("wrong", [Emit(NOTHING), RunAgent(NOTHING), Fork([NOTHING])], ids=str)
def test_an_effect_that_holds_nothing_is_an_error_that_names_it_and_the_agent(wrong: Effect) -> None:
    class Odd(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            yield wrong

    result = run_once(Odd("odd"))

    assert isinstance(result.error, TypeError)
    assert str(result.error).startswith(f"agent 'odd' yielded {type(wrong).__name__}(")
    assert "None" in str(result.error)


def test_an_event_that_cannot_be_stored_fails_the_run_with_the_path_to_the_value() -> None:
    class Exotic(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            branch: Any = object()
            yield context.event(self.name, branch=branch)

    result = run_once(Exotic("exotic"))

    assert isinstance(result.error, EncodingError)
    assert result.error.path == "data.branch"


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    ("change", "kind", "wrong"),
    [
        ({"invocation_id": "imported"}, ValueError, "invocation 'imported'"),
        ({"author": "user"}, ValueError, "author 'user'"),
        ({"author": ""}, ValueError, "author ''"),
        ({"author": None}, TypeError, "author is None"),
        ({"author": 7}, TypeError, "author is 7"),
        ({"timestamp": "now"}, TypeError, "timestamp is 'now'"),
        ({"timestamp": None}, TypeError, "timestamp is None"),
    ],
)
def test_an_event_that_is_not_the_runs_own_is_refused_where_it_is_yielded_and_not_stored(
    change: dict[str, Any], kind: type[Exception], wrong: str, partial: bool
) -> None:
    class Importer(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            event = context.event(self.name, content=Content.model("old"), partial=partial)
            yield replace(event, **change)

    result = run_once(Importer("importer"))

    assert type(result.error) is kind
    assert "agent 'importer' yielded" in str(result.error)
    assert wrong in str(result.error)
    assert [event.author for event in result.events] == ["user"]


def test_the_agents_generator_is_closed_when_its_run_fails() -> None:
    closed: list[bool] = []

    class Tidy(BaseAgent):
        def run(self, context: AgentContext) -> Steps:
            try:
                yield from emit(context.event(self.name, content=Content.model("one")))
                yield "nonsense"  # type: ignore[misc]  # this is what must fail
            finally:
                closed.append(True)

    run_once(Tidy("tidy"))

    assert closed == [True]


def test_a_tool_is_given_the_context_of_its_call() -> None:
    seen: list[ToolContext] = []

    def look(tool_context: ToolContext) -> str:
        seen.append(tool_context)
        return "seen"

    model = ScriptedModel(calls(("look", {})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()

    (call,) = result.events[1].function_calls
    (context,) = seen
    assert context.function_call_id == call.id
    assert context.invocation_id == result.invocation_id
    assert (context.user_id, context.session_id) == ("u", "s")


def test_a_tool_that_does_not_exist_is_answered_and_the_run_goes_on() -> None:
    model = ScriptedModel(calls(("nothing", {})), "done")
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer() == "done"

    (answer,) = responses(model)
    assert answer["message"] == "There is no tool named 'nothing'. There are no tools."


def test_wrong_arguments_are_answered_with_what_is_wrong() -> None:
    def look(where: str) -> str:
        return where

    model = ScriptedModel(calls(("look", {"when": 3})), "done")
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer() == "done"

    (answer,) = responses(model)
    assert "where: Field required; when: Extra inputs are not permitted" in answer["message"]


def test_a_tools_exception_is_logged_and_the_model_is_told_no_more_than_that_it_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def look() -> str:
        raise ValueError("the password is 1234")

    model = ScriptedModel(calls(("look", {})), "done")
    with (
        caplog.at_level(logging.ERROR, "intermission"),
        Runner(app_with(model, look), log=MemoryEventLog()) as runner,
    ):
        result = runner.run(**KEY, message="hi").result()

    assert responses(model) == [{"status": "error", "message": "The tool failed."}]
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert "1234" in str(logged.exc_info[1])
    assert (logged.session, logged.invocation) == ("s", result.invocation_id)  # type: ignore[attr-defined]  # given as extra


def test_nan_and_infinity_in_a_tools_result_are_told_by_their_names() -> None:
    def mean() -> dict[str, float]:
        return {"mean": math.nan, "most": math.inf}

    model = ScriptedModel(calls(("mean", {})), "done")
    with Runner(app_with(model, mean), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(30) == "done"

    assert responses(model) == [{"mean": "NaN", "most": "Infinity"}]


def test_an_agent_whose_run_is_no_generator_is_told_so() -> None:
    class Plain(BaseAgent):
        def run(self, context: AgentContext) -> Any:
            return [context.event(self.name, content=Content.model("hi"))]

    error = str(run_once(Plain("plain")).error)

    assert "must be a generator, that is, hold a yield; it returned list" in error


def test_nothing_of_a_model_is_waited_for_after_its_whole_response() -> None:
    closed: list[bool] = []

    class Lingering:
        name = "lingering"

        def generate(self, request: ModelRequest) -> Any:
            try:
                yield ModelResponse(content=Content.model("done"))
                Gate().wait()
            finally:
                closed.append(True)

    with Runner(app_with(Lingering()), log=MemoryEventLog()) as runner:
        assert runner.run(**KEY, message="hi").answer(5) == "done"

    assert closed == [True]


def test_calls_of_one_turn_are_answered_in_their_order_and_each_has_an_id_of_its_own() -> None:
    def look(where: str) -> str:
        return where

    model = ScriptedModel(
        calls(("look", {"where": "a"}), ("look", {"where": "b"}), ("look", {"where": "c"})), "done"
    )
    with Runner(app_with(model, look), log=MemoryEventLog()) as runner:
        events = runner.run(**KEY, message="hi").result().events

    assert responses(model) == [{"result": "a"}, {"result": "b"}, {"result": "c"}]
    ids = [call.id for call in events[1].function_calls]
    assert ids == [response.id for response in events[2].function_responses]
    assert len(set(ids)) == 3


class Contradicting:
    """A model whose whole text is not what its partials were."""

    name = "contradicting"

    def generate(self, request: ModelRequest) -> Any:
        yield ModelResponse(content=Content.model("Hel"), partial=True)
        yield ModelResponse(content=Content.model("Goodbye"))


class Unfinished:
    """A model that never gives its whole response."""

    name = "unfinished"

    def generate(self, request: ModelRequest) -> Any:
        yield ModelResponse(content=Content.model("Hel"), partial=True)


@pytest.mark.parametrize(
    ("model", "problem"),
    [(Contradicting(), "other than its partials"), (Unfinished(), "without a whole response")],
)
def test_a_model_that_contradicts_what_was_shown_fails_the_run(model: Any, problem: str) -> None:
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        run = runner.run(**KEY, message="hi", config=RunConfig(streaming=True))
        with pytest.raises(ModelError, match=problem):
            run.answer()


def test_a_final_text_longer_than_its_partials_shows_the_rest_once() -> None:
    class Hasty:
        name = "hasty"

        def generate(self, request: ModelRequest) -> Any:
            yield ModelResponse(content=Content.model("Hel"), partial=True)
            yield ModelResponse(content=Content.model("Hello"))

    with Runner(app_with(Hasty()), log=MemoryEventLog()) as runner:
        deltas = [event.delta for event in runner.run(**KEY, message="hi", config=RunConfig(streaming=True))]

    assert deltas == ["Hel", "lo"]


def test_a_model_is_asked_to_stream_only_when_the_run_streams() -> None:
    model = ScriptedModel(text("a", "b"), text("a", "b"))
    with Runner(app_with(model), log=MemoryEventLog()) as runner:
        assert len(list(runner.run(**KEY, message="hi"))) == 1
        assert len(list(runner.run(**KEY, message="hi", config=RunConfig(streaming=True)))) == 3
