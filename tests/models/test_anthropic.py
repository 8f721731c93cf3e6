"""`Anthropic` against a service that speaks its protocol."""

import re
from collections.abc import Iterator

import pytest

from anthropic_events import START, begun, event
from intermission import App, LlmAgent, Runner
from intermission.content import Content, FunctionCall
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.kernel.scope import CancelScope
from intermission.models import Anthropic, Model, ModelRequest, ModelResponse
from intermission.testing import Gate, ManualClock, ModelServer, calls, error, stream, text, wire
from intermission_storage import MemoryEventLog

KEY = "sk-ant-very-secret-0123456789"
STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
BOTH = pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[float]:
    """Move the clock in place of each sleep, and say for how long."""
    seconds: list[float] = []

    def sleep(scope: CancelScope, length: float) -> None:
        seconds.append(length)
        clock.advance(length)

    monkeypatch.setattr(CancelScope, "sleep", sleep)
    return seconds


def model(server: ModelServer, **options: object) -> Anthropic:
    return Anthropic("small", base_url=server.root_url, api_key=KEY, max_retries=0, options=options)


def failure(model: Anthropic, request: ModelRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        list(model.generate(request))
    return caught.value


def data(*events: str) -> bytes:
    return b"".join(f"data: {each}\n\n".encode() for each in events)


def test_a_stream_gives_each_piece_and_then_the_whole(server: ModelServer) -> None:
    server.enqueue(text("one\u2028 ", "two\u0085é", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(STREAMED)) == [
        ModelResponse(content=Content.model("one\u2028 "), partial=True),
        ModelResponse(content=Content.model("two\u0085é"), partial=True),
        ModelResponse(
            content=Content.model("one\u2028 two\u0085é"), usage=Usage(3, 2, 5), finish_reason="stop"
        ),
    ]


def test_a_plain_answer_is_one_response(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(WHOLE)) == [
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop")
    ]


@BOTH
def test_tool_calls_have_their_position_in_the_answer_as_their_id(
    server: ModelServer, request_: ModelRequest
) -> None:
    server.enqueue(calls(("add", {"a": 1, "text": "é"}), ("now", {}), text="Let me see."))
    *partials, last = model(server).generate(request_)

    assert last.content == Content.model(
        "Let me see.", calls=[FunctionCall("0", "add", {"a": 1, "text": "é"}), FunctionCall("1", "now", {})]
    )
    assert last.finish_reason == "tool_calls"
    shown = [call for partial in partials for call in partial.content.function_calls]
    assert {(call.id, call.name) for call in shown} <= {("0", "add"), ("1", "now")}
    assert bool(shown) == request_.streaming


@BOTH
def test_an_answer_of_neither_text_nor_calls_is_empty(server: ModelServer, request_: ModelRequest) -> None:
    server.enqueue(text())

    assert [response.content for response in model(server).generate(request_)] == [Content("model", ())]


def test_a_request_goes_to_the_path_of_messages_with_the_key_and_the_version(server: ModelServer) -> None:
    server.enqueue("yes")
    list(model(server, temperature=0, max_tokens=5).generate(WHOLE))

    assert server.paths == ["/v1/messages"]
    assert server.headers[0]["x-api-key"] == KEY
    assert server.headers[0]["anthropic-version"] == "2023-06-01"
    assert "authorization" not in server.headers[0]
    assert server.requests[0].keys() == {"model", "messages", "temperature", "max_tokens"}


def test_an_agents_configuration_is_sent_before_the_options(server: ModelServer) -> None:
    server.enqueue("yes")
    asked = model(server, max_tokens=5, temperature=0)
    app = App("any", LlmAgent("agent", asked, generate_config={"max_tokens": 7}))
    with Runner(app, log=MemoryEventLog()) as runner:
        assert runner.run(user_id="u", session_id="s", message="hi").answer() == "yes"

    assert (server.requests[0]["max_tokens"], server.requests[0]["temperature"]) == (7, 0)


def test_options_may_not_name_what_the_runtime_fills() -> None:
    with pytest.raises(ValueError, match="messages, system"):
        Anthropic("small", options={"system": "x", "messages": []})


# Address and key


def test_a_missing_key_is_named_by_the_first_call() -> None:
    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY") as caught:
        next(Anthropic("small").generate(WHOLE))
    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_a_server_of_ones_own_needs_no_key(server: ModelServer) -> None:
    server.enqueue("yes")
    list(Anthropic("small", base_url=f"{server.root_url}/").generate(WHOLE))

    assert "x-api-key" not in server.headers[0]


def test_address_and_key_come_from_the_environment_unless_they_are_given(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{server.root_url}/")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
    server.enqueue("yes")
    server.enqueue("yes")
    named = Model.from_name("anthropic/small")
    assert isinstance(named, Anthropic)
    list(named.generate(WHOLE))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    list(Anthropic("small", base_url=server.root_url, api_key=KEY).generate(WHOLE))

    assert [headers["x-api-key"] for headers in server.headers] == ["sk-environment", KEY]


# What goes wrong


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ModelErrorKind.VALIDATION, False),
        (401, ModelErrorKind.AUTHENTICATION, False),
        (403, ModelErrorKind.AUTHENTICATION, False),
        (404, ModelErrorKind.VALIDATION, False),
        (413, ModelErrorKind.VALIDATION, False),
        (429, ModelErrorKind.RATE_LIMIT, True),
        (500, ModelErrorKind.SERVICE, True),
        (504, ModelErrorKind.TIMEOUT, True),
        (529, ModelErrorKind.SERVICE, True),
    ],
)
def test_each_refusal_has_its_kind_and_shows_its_reason_without_the_key(
    server: ModelServer, status: int, kind: ModelErrorKind, retryable: bool
) -> None:
    server.enqueue(error("other", f"no, {KEY}", status=status, retry_after=7))
    failed = failure(model(server), STREAMED)

    assert (failed.kind, failed.status, failed.retryable) == (kind, status, retryable)
    assert failed.retry_after == 7
    assert "no, [key]" in str(failed)
    assert KEY not in repr(failed)


def test_a_service_that_is_overloaded_is_asked_again_as_long_as_it_has_shown_nothing(
    server: ModelServer, slept: list[float]
) -> None:
    overloaded = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    server.enqueue(error("service", status=529, retry_after=2))
    server.enqueue(wire(data(START, overloaded)))
    server.enqueue("yes")
    asked = Anthropic("small", base_url=server.root_url)

    assert list(asked.generate(STREAMED))[-1].content.text == "yes"
    assert 2 <= slept[0] <= 3
    assert len(slept) == 2
    server.enqueue(stream("half", data(overloaded)))
    responses = asked.generate(STREAMED)
    assert next(responses).content.text == "half"
    with pytest.raises(ModelError, match="inside its answer: Overloaded") as caught:
        next(responses)
    assert (caught.value.kind, caught.value.status) == (ModelErrorKind.SERVICE, 529)
    assert len(server.requests) == 4


@pytest.mark.parametrize("cut", [b"", data(event("message_delta", delta={"stop_reason": "end_turn"}))])
def test_a_stream_without_the_end_of_its_message_is_an_error_and_never_an_answer(
    server: ModelServer, cut: bytes
) -> None:
    server.enqueue(wire(data(START, begun(0, "text", text="half")), cut))
    responses = model(server).generate(STREAMED)

    assert next(responses).partial
    with pytest.raises(ModelError, match="ended without its end marker") as caught:
        next(responses)
    assert caught.value.kind is ModelErrorKind.SERVICE


def test_a_stream_is_over_with_its_message_and_waits_for_no_more(server: ModelServer) -> None:
    said = data(START, begun(0, "text", text="half"), event("message_stop"))
    server.enqueue(wire(said, Gate(), b"data: nonsense\n\n"))

    assert list(model(server).generate(STREAMED))[-1].content.text == "half"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            b'{"type": "error", "error": {"type": "api_error", "message": "broken"}}',
            "inside its answer: broken",
        ),
        (b'{"type": "message", "content": []}', "did not stream its answer"),
        (b"<html>", "did not stream its answer"),
    ],
)
def test_an_answer_in_place_of_a_stream_is_an_error(server: ModelServer, body: bytes, shown: str) -> None:
    server.enqueue(wire(body, content_type="application/json"))

    assert shown in str(failure(model(server), STREAMED))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"content": []}', b'{"type": "error", "error": {"message": "broken"}}']
)
def test_a_plain_answer_that_is_none_is_an_error(server: ModelServer, body: bytes) -> None:
    server.enqueue(wire(body, content_type="application/json"))

    assert failure(model(server), WHOLE).kind is ModelErrorKind.SERVICE


@BOTH
def test_an_answer_of_endless_depth_is_a_service_error(server: ModelServer, request_: ModelRequest) -> None:
    body = b'{"type": "message", "content": ' + b"[" * 200_000
    server.enqueue(wire(b"data: " + body + b"\n\n" if request_.streaming else body))
    failed = failure(model(server), request_)

    assert failed.kind is ModelErrorKind.SERVICE
    assert isinstance(failed.__cause__, RecursionError)


def test_what_the_service_would_refuse_is_refused_by_its_double(server: ModelServer) -> None:
    spoken = ModelRequest(contents=(Content.model("I begin."), Content.user("hello")))

    assert re.search("does not begin with the assistant", str(failure(model(server), spoken)))
    assert "max_tokens must be a number" in str(failure(model(server, max_tokens=0), WHOLE))
