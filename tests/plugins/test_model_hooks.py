"""Hooks around a model call."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from apps import KEY, app_of
from hooks import BOTH_KINDS, app_plugged, of_kind, plugin
from intermission import (
    CallbackContext,
    Content,
    Event,
    HookResultError,
    LlmAgent,
    LlmCallsLimitExceededError,
    ModelError,
    Part,
    RunConfig,
    Runner,
    RunStatus,
)
from intermission.content import FunctionCall
from intermission.models import ModelRequest, ModelResponse
from intermission.testing import FaultyLog, ScriptedModel, calls, error, text
from intermission_storage import MemoryEventLog

STREAMING = RunConfig(streaming=True)


def response(words: str) -> ModelResponse:
    return ModelResponse(content=Content.model(words))


def look(where: str) -> str:
    """Look."""
    return f"seen {where}"


def run(agent: LlmAgent, *plugins: Any, config: RunConfig | None = None) -> tuple[list[Event], list[Event]]:
    """Return what a run of the agent shows, and what it stores."""
    with Runner(app_plugged(agent, *plugins), log=MemoryEventLog()) as runner:
        one = runner.run(**KEY, message="hi", config=config)
        shown = list(one)
        return shown, one.result(0).events[1:]


@BOTH_KINDS
def test_a_response_before_the_model_takes_the_place_of_the_call(kind: str) -> None:
    model = ScriptedModel()
    asked: list[ModelRequest] = []

    def before(_: CallbackContext, request: ModelRequest) -> ModelResponse:
        asked.append(request)
        return response("from the cache")

    def after(_: CallbackContext, __: ModelResponse) -> ModelResponse:
        raise AssertionError("no model has said it")

    agent = LlmAgent(
        "agent",
        model,
        instruction="Be brief.",
        before_model_callback=of_kind(kind, before),
        after_model_callback=after,
    )
    shown, _ = run(agent)
    assert [event.text for event in shown] == ["from the cache"]
    assert model.requests == []
    assert [(request.instruction, request.contents[-1].text) for request in asked] == [("Be brief.", "hi")]


def test_the_calls_of_a_response_before_the_model_get_ids_of_ours_and_are_run() -> None:
    def before(context: CallbackContext, _: ModelRequest) -> ModelResponse | None:
        if context.events[-1].function_responses:
            return None
        call = Part(function_call=FunctionCall("theirs", "look", {"where": "here"}))
        return ModelResponse(content=Content("model", (call,)))

    model = ScriptedModel("done")
    shown, _ = run(LlmAgent("agent", model, tools=[look], before_model_callback=before))
    (call,) = shown[0].function_calls
    assert call.id.startswith("call-")
    assert [one.response for one in shown[1].function_responses] == [{"result": "seen here"}]
    assert shown[2].text == "done"


@BOTH_KINDS
def test_a_request_takes_the_place_of_the_request_and_the_chain_goes_on(kind: str) -> None:
    def add(word: str) -> Any:
        def before(*_: Any, llm_request: ModelRequest, **__: Any) -> ModelRequest:
            return replace(llm_request, instruction=llm_request.instruction + word)

        return before

    def last(_: CallbackContext, llm_request: ModelRequest) -> ModelRequest:
        return replace(llm_request, instruction=llm_request.instruction + "c")

    model = ScriptedModel("ok")
    agent = LlmAgent("agent", model, instruction="", before_model_callback=of_kind(kind, last))
    one, two = (plugin(word, kind, before_model_callback=add(word)) for word in "ab")
    run(agent, one, two)
    assert [request.instruction for request in model.requests] == ["abc"]


def test_a_call_is_counted_before_its_hooks_so_that_an_answer_in_its_place_counts() -> None:
    asked: list[str] = []

    def before(_: CallbackContext, __: ModelRequest) -> ModelResponse:
        asked.append("asked")
        call = Part(function_call=FunctionCall("", "look", {"where": "here"}))
        return ModelResponse(content=Content("model", (call,)))

    agent = LlmAgent("agent", ScriptedModel(), tools=[look], before_model_callback=before)
    with pytest.raises(LlmCallsLimitExceededError):
        run(agent, config=RunConfig(max_llm_calls=2))
    assert len(asked) == 2


@BOTH_KINDS
def test_what_is_said_after_the_model_takes_the_place_of_its_response(kind: str) -> None:
    def after(context: CallbackContext, one: ModelResponse) -> ModelResponse:
        context.state["length"] = len(one.content.text)
        return response(one.content.text.upper())

    agent = LlmAgent("agent", ScriptedModel("quiet"), after_model_callback=of_kind(kind, after))
    shown, stored = run(agent)
    assert [event.text for event in shown] == [event.text for event in stored] == ["QUIET"]
    assert dict(stored[0].actions.state_delta) == {"length": 5}


@BOTH_KINDS
def test_partial_responses_are_looked_at_before_they_are_shown(kind: str) -> None:
    seen: list[tuple[str, bool]] = []

    def after(*, callback_context: CallbackContext, llm_response: ModelResponse) -> ModelResponse:
        words = llm_response.content.text
        seen.append((words, llm_response.partial))
        return response(words.replace("secret", "******"))

    agent = LlmAgent("agent", ScriptedModel(text("my ", "secret", " is safe")))
    shown, stored = run(agent, plugin("plugin", kind, after_model_callback=after), config=STREAMING)
    assert seen == [("my ", True), ("secret", True), (" is safe", True), ("my secret is safe", False)]
    assert [event.partial for event in shown] == [True, True, True, False]
    assert "".join(event.delta for event in shown) == shown[-1].text == "my ****** is safe"
    assert [event.text for event in stored] == ["my ****** is safe"]


def test_of_a_final_that_goes_another_way_than_its_partials_nothing_is_shown_twice() -> None:
    def final_only(_: CallbackContext, one: ModelResponse) -> ModelResponse | None:
        return None if one.partial else response("It is in Delft.")

    agent = LlmAgent("agent", ScriptedModel(text("It is ", "in Utrecht.")), after_model_callback=final_only)
    shown, stored = run(agent, config=STREAMING)
    assert [event.delta for event in shown] == ["It is ", "in Utrecht.", "Delft."]
    assert shown[-1].text == stored[-1].text == "It is in Delft."


@BOTH_KINDS
def test_a_response_in_the_place_of_an_error_goes_through_the_hooks_after_the_model(kind: str) -> None:
    errors: list[Exception] = []

    def instead(_: CallbackContext, request: ModelRequest, one: Exception) -> ModelResponse:
        errors.append(one)
        return response(f"sorry about {request.contents[-1].text!r}")

    def after(_: CallbackContext, one: ModelResponse) -> ModelResponse:
        return response(one.content.text + "!")

    model = ScriptedModel(error("network", "no such host"))
    agent = LlmAgent(
        "agent",
        model,
        on_model_error_callback=of_kind(kind, instead),
        after_model_callback=of_kind(kind, after),
    )
    shown, _ = run(agent)
    assert [event.text for event in shown] == ["sorry about 'hi'!"]
    assert [type(one) for one in errors] == [ModelError]


def test_an_error_that_no_hook_has_an_answer_to_fails_the_run_as_it_is() -> None:
    seen: list[Exception] = []

    def look_at(*, error: Exception, **_: Any) -> None:
        seen.append(error)

    agent = LlmAgent("agent", ScriptedModel(error("network", "no such host")))
    watch = plugin(on_model_error_callback=look_at)
    with Runner(app_plugged(agent, watch), log=MemoryEventLog()) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert result.error is seen[0]


@BOTH_KINDS
@pytest.mark.parametrize("partial", [True, False])
def test_an_error_of_a_hook_after_the_model_fails_the_run_and_is_no_error_of_the_model(
    kind: str, partial: bool
) -> None:
    broken, seen = ValueError("broken"), list[Exception]()

    def after(_: CallbackContext, one: ModelResponse) -> None:
        if one.partial is partial:
            raise broken

    def on_error(_: CallbackContext, __: ModelRequest, one: Exception) -> ModelResponse:
        seen.append(one)
        return response("never")

    agent = LlmAgent(
        "agent",
        ScriptedModel(text("a", "b")),
        after_model_callback=of_kind(kind, after),
        on_model_error_callback=on_error,
    )
    with Runner(app_of(agent), log=MemoryEventLog(), config=STREAMING) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert (result.status, result.error, seen) == (RunStatus.FAILED, broken, [])


@BOTH_KINDS
@pytest.mark.parametrize("hook", ["before_model_callback", "after_model_callback", "on_model_error_callback"])
def test_what_is_no_response_is_an_error_that_names_the_hook(kind: str, hook: str) -> None:
    def wrong(**_: Any) -> str:
        return "ok"

    model = ScriptedModel(error("network", "no") if hook.startswith("on") else "ok")
    with Runner(
        app_plugged(LlmAgent("agent", model), plugin("plugin", kind, **{hook: wrong})), log=MemoryEventLog()
    ) as runner:
        result = runner.run(**KEY, message="hi").result()
    assert isinstance(result.error, HookResultError)
    assert "ModelResponse" in str(result.error)


def test_with_hooks_no_model_is_asked_before_what_it_is_asked_about_is_stored() -> None:
    log, again = FaultyLog(), threading.Event()
    asked: list[int | None] = []

    def before(context: CallbackContext, _: ModelRequest) -> None:
        asked.append(context.events[-1].seq)
        if len(asked) == 2:
            again.set()

    model = ScriptedModel(calls(("look", {"where": "here"})), "done")
    agent = LlmAgent("agent", model, tools=[look], before_model_callback=before)
    with Runner(app_of(agent), log=log, config=RunConfig(overlap_model_calls=True)) as runner:
        gate, run = log.hold(3), runner.run(**KEY, message="hi").start()
        gate.arrived()
        assert not again.wait(0.1)
        gate.open()
        assert run.answer(30) == "done"
    assert asked == [3, 7]


def test_a_models_generator_is_closed_when_a_hook_raises_in_its_midst() -> None:
    closed: list[str] = []

    class Streaming:
        name = "streaming"

        def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
            try:
                yield ModelResponse(content=Content.model("a"), partial=True)
                yield response("a")
            finally:
                closed.append("closed")

    def after(_: CallbackContext, __: ModelResponse) -> None:
        raise ValueError

    agent = LlmAgent("agent", Streaming(), after_model_callback=after)
    with Runner(app_of(agent), log=MemoryEventLog(), config=STREAMING) as runner:
        assert runner.run(**KEY, message="hi").result().status is RunStatus.FAILED
    assert closed == ["closed"]


@pytest.mark.scenario("B5")
def test_an_output_check_that_trips_after_a_tool_takes_nothing_of_the_tool_back() -> None:
    effects: list[str] = []

    def order(item: str) -> str:
        """Order something."""
        effects.append(item)
        return "ordered"

    def check(_: CallbackContext, one: ModelResponse) -> None:
        if "secret" in one.content.text:
            raise ValueError("the answer was not let out")

    model = ScriptedModel(calls(("order", {"item": "tea"})), "a secret", "It was ordered.")
    agent = LlmAgent("agent", model, tools=[order], after_model_callback=check)
    with Runner(app_of(agent), log=MemoryEventLog()) as runner:
        run, shown = runner.run(**KEY, message="Order tea."), list[Event]()
        with pytest.raises(ValueError, match="the answer was not let out"):
            shown.extend(run)
        result = run.result()
        assert (result.status, result.text) == (RunStatus.FAILED, "")
        call, answer = result.events[1:]
        assert [call, answer] == shown  # and nothing of what was not let out
        assert [one.id for one in call.function_calls] == [one.id for one in answer.function_responses]
        assert runner.run(**KEY, message="Well?").answer() == "It was ordered."
    assert effects == ["tea"]
    assert [one.text for one in model.requests[-1].contents if one.text] == ["Order tea.", "Well?"]
    assert model.requests[-1].contents[2].function_responses[0].response == {"result": "ordered"}
