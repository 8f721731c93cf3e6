"""Ids of calls: ours, given once, the same in each partial, in the whole event and in the log."""

import json
from collections.abc import Iterator, Mapping

import pytest

from intermission import App, Content, FunctionCall, LlmAgent, RunConfig, Runner
from intermission.content import Part
from intermission.models import ChatCompletions, ModelRequest, ModelResponse
from intermission.runs.call_ids import CallIds
from intermission.testing import Cut, ModelServer, ScriptedModel, calls, stream
from intermission_storage import MemoryEventLog

TOLD: list[str] = []


def look(where: str, how: str = "") -> str:
    """Look."""
    TOLD.append(where)
    return where


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    TOLD.clear()


def deltas(*pieces: Mapping[str, object]) -> Iterator[bytes]:
    for piece in pieces:
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
        yield b"data: " + json.dumps(chunk).encode() + b"\n\n"


@pytest.mark.scenario("G3", "G4")
def test_a_call_in_ten_pieces_has_one_id_in_every_partial_the_event_and_the_log() -> None:
    arguments = json.dumps({"where": "under the bed", "how": "closely"})
    pieces = [arguments[begin : begin + 4] for begin in range(0, len(arguments), 4)]
    assert len(pieces) >= 10
    begun = {"index": 0, "id": "call_0", "function": {"name": "look", "arguments": ""}}
    more = ({"index": 0, "function": {"arguments": piece}} for piece in pieces)
    log = MemoryEventLog()
    with ModelServer(stream("One ", "moment", *deltas(begun, *more)), "There.") as server:
        app = App("looks", LlmAgent("agent", ChatCompletions("any", base_url=server.url), tools=[look]))
        with Runner(app, log=log) as runner:
            config = RunConfig(streaming=True)
            events = list(runner.run(user_id="u", session_id="s", message="Look", config=config))
            stored = runner.sessions.events(user_id="u", session_id="s")

    partials = [event for event in events if event.partial]
    shown = [call for event in partials for call in event.function_calls]
    (whole,) = [event for event in events if event.function_calls and not event.partial]
    (kept,) = [event for event in stored if event.function_calls]
    (call,) = whole.function_calls
    assert len(shown) > 5
    assert {known.id for known in shown} == {call.id}
    assert call.id.startswith("call-")
    assert (shown[0].args, shown[-1].args) == ({}, call.args)
    assert kept.function_calls == whole.function_calls
    # The texts of the partials are the text of the whole; the tool ran once; partials can be left out.
    assert "".join(event.text for event in partials) == whole.text + "There."
    assert whole.delta == ""
    assert TOLD == ["under the bed"]
    assert server.requests[1]["messages"][1]["tool_calls"][0]["id"] == call.id


@pytest.mark.scenario("G1")
def test_a_stream_that_breaks_within_a_call_runs_no_tool_and_is_not_asked_for_again() -> None:
    half = {"index": 0, "id": "x", "function": {"name": "look", "arguments": '{"where": "under'}}
    with ModelServer(stream("One ", *deltas(half), Cut.RESET), default="never asked for") as server:
        app = App("looks", LlmAgent("agent", ChatCompletions("any", base_url=server.url), tools=[look]))
        with Runner(app, log=MemoryEventLog()) as runner:
            config = RunConfig(streaming=True)
            run = runner.run(user_id="u", session_id="s", message="Look", config=config)
            result = run.result()

    assert result.status == "failed"
    assert [event.author for event in result.events] == ["user"]
    assert len(server.requests) == 1
    assert TOLD == []


def test_calls_without_ids_and_with_the_same_id_get_ids_that_differ() -> None:
    model = ScriptedModel(calls(("look", {"where": "a"}), ("look", {"where": "b"})), "There.")
    with Runner(App("looks", LlmAgent("agent", model, tools=[look])), log=MemoryEventLog()) as runner:
        events = runner.run(user_id="u", session_id="s", message="Look").result().events
    ids = [call.id for event in events for call in event.function_calls]

    assert len(set(ids)) == 2
    repeated = CallIds().content(Content.model(calls=[FunctionCall("x", "look")] * 2))
    first, second = repeated.function_calls
    assert first.id != second.id
    assert "x" not in (first.id, second.id)


class TwoCalls:
    """Shows two calls at once, and in the whole response in the other order."""

    name = "two"

    def __init__(self) -> None:
        self.done = False

    def generate(self, request: ModelRequest) -> Iterator[ModelResponse]:
        if self.done:
            yield ModelResponse(content=Content.model("There."))
            return
        self.done = True
        for name, where in (("1", "b"), ("0", "a"), ("1", "b")):
            call = FunctionCall(name, "look", {"where": where})
            yield ModelResponse(content=Content("model", (Part(function_call=call),)), partial=True)
        both = [FunctionCall("0", "look", {"where": "a"}), FunctionCall("1", "look", {"where": "b"})]
        yield ModelResponse(content=Content.model(calls=both))


def test_a_model_of_ones_own_tells_its_calls_apart_by_ids_within_the_response() -> None:
    app = App("looks", LlmAgent("agent", TwoCalls(), tools=[look]))
    with Runner(app, log=MemoryEventLog()) as runner:
        config = RunConfig(streaming=True)
        events = list(runner.run(user_id="u", session_id="s", message="Look", config=config))
    shown = {
        call.args["where"]: call.id for event in events if event.partial for call in event.function_calls
    }
    (whole,) = [event for event in events if event.function_calls and not event.partial]

    assert shown == {call.args["where"]: call.id for call in whole.function_calls}


def test_what_calls_nothing_stays_the_same_object() -> None:
    content = Content.model("Hello")
    assert CallIds().content(content) is content
