"""What a model thinks before it calls tools goes back to it as it came, and to no other provider."""

import json
from typing import Any

import pytest

from anthropic_events import START, arguments, begun, event, signature, stop, text, thinking
from apps import KEY
from intermission import App, LlmAgent, RunConfig, Runner
from intermission.testing import ModelServer, wire
from intermission.testing.replies import WireReply
from intermission_storage import EventLog, MemoryEventLog
from providers import PROVIDERS

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sea"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": "Eo8="}]}
THOUGHT: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": " I should look — first.\n", "signature": "EqQB+/=="},
    {"type": "redacted_thinking", "data": "Em0K"},
    SEARCH,
    FOUND,
    {"type": "text", "text": "One moment."},
    {"type": "thinking", "thinking": "", "signature": "EqQC"},
]
CALL: dict[str, Any] = {"type": "tool_use", "name": "look", "input": {}}


def streamed() -> WireReply:
    events = [
        START,
        begun(0, "thinking", thinking="", signature=""),
        thinking(0, " I should "),
        thinking(0, "look — first.\n"),
        signature(0, "EqQB+/=="),
        stop(0),
        begun(1, "redacted_thinking", data="Em0K"),
        stop(1),
        begun(2, "server_tool_use", id="srv_1", name="web_search", input={}),
        arguments(2, '{"query": "sea"}'),
        stop(2),
        event("content_block_start", index=3, content_block=FOUND),
        stop(3),
        begun(4, "text", text=""),
        text(4, "One moment."),
        stop(4),
        begun(5, "thinking", thinking=""),
        signature(5, "EqQC"),
        stop(5),
        begun(6, "tool_use", id="toolu_1", name="look", input={}),
        stop(6),
        event("message_delta", delta={"stop_reason": "tool_use"}),
        event("message_stop"),
    ]
    return wire(*(f"data: {one}\n\n".encode() for one in events))


def whole() -> WireReply:
    body: dict[str, Any] = {"type": "message", "content": [*THOUGHT, CALL], "stop_reason": "tool_use"}
    return wire(json.dumps(body).encode(), content_type="application/json")


def look() -> str:
    """Look."""
    return "nothing"


def ask(provider: str, server: ModelServer, log: EventLog, message: str, *, streaming: bool = False) -> str:
    agent = LlmAgent("agent", PROVIDERS[provider].make(server, api_key="any"), tools=[look])
    with Runner(App("looks", agent), log=log) as runner:
        return runner.run(**KEY, message=message, config=RunConfig(streaming=streaming)).answer()


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
def test_what_was_thought_before_a_call_goes_back_as_it_came_and_nobody_else_is_sent_it(
    streaming: bool,
) -> None:
    log = MemoryEventLog()
    with ModelServer(streamed() if streaming else whole(), default="Nothing.") as server:
        assert ask("anthropic", server, log, "Look", streaming=streaming) == "Nothing."
        assert ask("anthropic", server, log, "And now?") == "Nothing."  # another runner, out of the log
        for other in PROVIDERS.keys() - {"anthropic"}:
            ask(other, server, log, "And you?")

    _, first, second, *others = server.requests
    for request in (first, second):
        *said, call = request["messages"][1]["content"]
        assert said == THOUGHT
        assert {**CALL, "id": call["id"]} == call
    for request in others:
        told = json.dumps(request)
        assert "One moment." in told
        assert not any(secret in told for secret in ("EqQ", "Em0K", "Eo8", "web_search", "I should"))
