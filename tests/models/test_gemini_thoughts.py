"""What Gemini has signed goes back to it with the part that it came with, and to no other provider."""

import base64
import json
from typing import Any

import pytest

from apps import KEY
from intermission import App, LlmAgent, ResumabilityConfig, RunConfig, Runner
from intermission.models import Gemini, Model
from intermission.testing import ModelServer, calls, error, wire
from intermission.testing.replies import WireReply
from intermission_storage import EventLog, MemoryEventLog
from providers import PROVIDERS

LOOK: dict[str, Any] = {"functionCall": {"name": "look", "args": {}}}
STEP: list[dict[str, Any]] = [
    {"text": "I should look.", "thought": True},
    {"text": "One moment."},
    {**LOOK, "thoughtSignature": "AP8x"},
    LOOK,
]
ANSWER = [{"text": "Nothing."}, {"text": "", "thoughtSignature": "AP8y"}]


def reply(parts: list[dict[str, Any]], *, streaming: bool) -> WireReply:
    def body(*parts: dict[str, Any], **more: str) -> bytes:
        return json.dumps({"candidates": [{"content": {"role": "model", "parts": parts}, **more}]}).encode()

    if not streaming:
        return wire(body(*parts, finishReason="STOP"), content_type="application/json")
    chunks = [*(body(part) for part in parts), body(finishReason="STOP")]
    return wire(*(b"data: %b\r\n\r\n" % chunk for chunk in chunks))


def look() -> str:
    """Look."""
    return "nothing"


def ask(model: Model, log: EventLog, message: str, *, streaming: bool = False) -> str:
    agent = LlmAgent("agent", model, tools=[look])
    with Runner(App("looks", agent), log=log) as runner:
        return runner.run(**KEY, message=message, config=RunConfig(streaming=streaming)).answer()


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
def test_what_was_signed_goes_back_where_it_was_and_nobody_else_is_sent_it(streaming: bool) -> None:
    log = MemoryEventLog()
    first, last = (reply(parts, streaming=streaming) for parts in (STEP, ANSWER))
    with ModelServer(first, last, default="Nothing.") as server:
        gemini = Gemini("gemini-3-pro-preview", base_url=server.root_url)
        assert ask(gemini, log, "Look", streaming=streaming) == "Nothing."
        assert ask(gemini, log, "And now?") == "Nothing."  # another runner, out of the log
        for other in PROVIDERS.keys() - {"gemini"}:
            ask(PROVIDERS[other].make(server, api_key="any"), log, "And you?")

    _, within, after, *others = server.requests
    for request in (within, after):
        turn, responses = (content["parts"] for content in request["contents"][1:3])
        ids = [part["functionCall"].pop("id") for part in turn[1:]]
        assert turn == STEP[1:]
        assert [part["functionResponse"]["id"] for part in responses] == ids
        assert len(set(ids)) == len(ids)
    assert after["contents"][3] == {"role": "model", "parts": ANSWER}
    for request in others:
        told = json.dumps(request)
        assert "One moment." in told
        assert not any(secret in told for secret in ("AP8", "I should"))


def test_a_turn_that_another_provider_began_goes_on_with_a_model_that_wants_signatures() -> None:
    log = MemoryEventLog()

    def runner(model: Model) -> Runner:
        app = App(
            "looks",
            LlmAgent("agent", model, tools=[look]),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        return Runner(app, log=log)

    with ModelServer(calls(("look", {}), ("look", {})), error("validation"), "Nothing.") as server:
        with runner(PROVIDERS["openai"].make(server, api_key="any")) as first:
            failed = first.run(**KEY, message="Look").result()
        with runner(Gemini("gemini-3-pro-preview", base_url=server.root_url)) as second:
            assert second.resume(**KEY, invocation_id=failed.invocation_id).answer() == "Nothing."

    turn = server.requests[-1]["contents"][1]["parts"]
    skipped = base64.b64encode(b"skip_thought_signature_validator").decode()  # what Google has for this
    assert [part.get("thoughtSignature") for part in turn] == [skipped, None]
