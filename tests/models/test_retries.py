"""What is tried again, and when: only what may pass, only while nothing was shown, and never too early."""

import logging
import socket
from collections.abc import Iterator

import pytest

from asking import Asked
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.models import ChatCompletions, ModelRequest
from intermission.models.retries import Retries
from intermission.testing import Cut, Gate, ManualClock, ModelServer, error, stream, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
SAID = b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(server: ModelServer, **options: int) -> ChatCompletions:
    return ChatCompletions("small", base_url=server.url, **options)  # type: ignore[arg-type]  # whole numbers


def ask(model: ChatCompletions, request: ModelRequest = WHOLE) -> str:
    return list(model.generate(request))[-1].content.text


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "failure",
    [
        error("rate_limit"),
        error("service", status=500),
        error("service", status=529),
        error("timeout", status=504),
        error("timeout", status=408),
        error("network"),
    ],
    ids=["429", "500", "529", "504", "408", "hung up"],
)
def test_a_failure_that_may_pass_is_tried_again(
    server: ModelServer, slept: list[float], request_: ModelRequest, failure: object
) -> None:
    server.enqueue(failure)  # type: ignore[arg-type]  # one of the server's replies
    server.enqueue(text("at ", "last"))

    assert ask(model(server), request_) == "at last"
    assert len(server.requests) == 2
    assert server.requests[0] == server.requests[1]
    assert len(slept) == 1


@pytest.mark.parametrize(
    "failure",
    [
        error("authentication"),
        error("validation"),
        error("other"),
        wire(b"moved", status=302),
        wire(b"nonsense"),
        wire(b'{"choices": []}'),
        wire(b'{"error": {"message": "no such model"}}'),
    ],
    ids=["401", "400", "418", "302", "nonsense", "no choice", "reported"],
)
def test_a_failure_that_will_not_pass_is_not_tried_again(
    server: ModelServer, slept: list[float], failure: object
) -> None:
    server.enqueue(failure)  # type: ignore[arg-type]  # one of the server's replies

    with pytest.raises(ModelError):
        ask(model(server))
    assert len(server.requests) == 1
    assert slept == []


@pytest.mark.scenario("G1")
@pytest.mark.parametrize(
    "broken",
    [
        stream("one ", "two", Cut.RESET),
        stream("one ", "two", Cut.CLOSE),
        stream("one ", "two", Cut.END),
        stream("one ", "two", b'data: {"error": {"message": "too many", "code": 429}}\n\n'),
    ],
    ids=["reset", "closed", "ended", "reported"],
)
def test_a_stream_that_breaks_after_something_was_shown_is_never_tried_again(
    server: ModelServer, slept: list[float], broken: object
) -> None:
    server.enqueue(broken)  # type: ignore[arg-type]  # one of the server's replies
    responses = model(server).generate(STREAMED)
    assert next(responses).content.text == "one "

    with pytest.raises(ModelError):
        list(responses)
    assert len(server.requests) == 1
    assert slept == []


def test_a_stream_that_breaks_before_anything_was_shown_is_tried_again(
    server: ModelServer, slept: list[float]
) -> None:
    server.enqueue(stream(b": ping\n\n", Cut.CLOSE))
    server.enqueue(text("one ", "two"))

    assert ask(model(server), STREAMED) == "one two"


def test_a_time_limit_of_the_answer_is_not_tried_again(server: ModelServer, clock: ManualClock) -> None:
    gate = Gate()
    server.enqueue(stream(gate))
    asked = Asked(model(server), STREAMED)
    gate.arrived()
    while asked.is_alive():
        clock.advance(61)
        asked.join(0.01)

    failed = asked.ended()
    assert isinstance(failed, ModelError)
    assert failed.limit in {"first_token_timeout", "stream_total_timeout"}
    assert len(server.requests) == 1


def test_a_service_that_nobody_reaches_is_tried_as_often_as_was_said(slept: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"

    with pytest.raises(ModelError) as caught:
        ask(ChatCompletions("small", base_url=url, max_retries=4))
    assert caught.value.kind is ModelErrorKind.NETWORK
    assert len(slept) == 4


def test_the_last_failure_is_the_one_that_is_raised(server: ModelServer, slept: list[float]) -> None:
    for status in (500, 502, 503):
        server.enqueue(error("service", f"failure {status}", status=status))

    with pytest.raises(ModelError, match="failure 503"):
        ask(model(server, max_retries=2))
    assert len(slept) == 2


def test_no_retries_are_none(server: ModelServer, slept: list[float]) -> None:
    server.enqueue(error("service"))

    with pytest.raises(ModelError):
        ask(model(server, max_retries=0))
    assert (len(server.requests), slept) == (1, [])


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        ChatCompletions("small", max_retries=-1)


def test_the_waits_grow_and_vary_and_have_a_bound() -> None:
    failed = ModelError("no", kind=ModelErrorKind.NETWORK)
    waits = [[Retries(100).delay(done, failed) or 0.0 for _ in range(50)] for done in range(12)]

    for done, some in enumerate(waits):
        longest = min(0.5 * 2**done, 8.0)
        assert all(longest / 2 <= wait <= longest for wait in some)
        assert len(set(some)) > 1


@pytest.mark.parametrize("seconds", [0.0, 1.0, 7.0, 60.0])
def test_the_wait_is_never_shorter_than_the_service_asks(
    server: ModelServer, slept: list[float], seconds: float
) -> None:
    server.enqueue(error("rate_limit", retry_after=seconds))
    server.enqueue("yes")

    assert ask(model(server)) == "yes"
    assert seconds <= slept[0] <= seconds + 1


def test_a_service_that_asks_for_no_wait_is_not_asked_again_at_once() -> None:
    failed = ModelError("busy", kind=ModelErrorKind.RATE_LIMIT, retry_after=0.0)

    assert 0.25 <= (Retries(2).delay(0, failed) or 0.0) <= 0.5


def test_a_service_that_asks_for_a_long_wait_is_not_waited_for(
    server: ModelServer, slept: list[float]
) -> None:
    server.enqueue(error("rate_limit", retry_after=61))

    with pytest.raises(ModelError) as caught:
        ask(model(server))
    assert caught.value.retry_after == 61
    assert slept == []


def test_a_retry_is_told_to_the_log_without_what_the_service_said(
    server: ModelServer, slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "intermission")
    server.enqueue(error("rate_limit", "about your secret"))
    server.enqueue("yes")
    ask(model(server))

    (record,) = [record for record in caplog.records if record.name.startswith("intermission")]
    assert "an error of kind rate_limit" in record.getMessage()
    assert "secret" not in record.getMessage()
