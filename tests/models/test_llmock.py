"""What a service that others wrote says of us, fault by fault. Real time: the waits are fractions of seconds.

It sees no errors that a client raises, only what comes over the wire. So it takes a client for one that used
half an answer if that does not ask again; ours never does once something was shown, and raises instead.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pytest

from asking import Asked
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.clock import SystemClock
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import ModelRequest, ToolDeclaration
from intermission.models.abort import AbortHandle
from intermission.models.http_model import HttpModel
from intermission.testing import Gate
from llmock_server import LlmockServer, llmock_server
from providers import PROVIDERS, Provider

Model: TypeAlias = Callable[..., HttpModel]

STREAMED = ModelRequest(contents=(Content.user("Tell me of the sea."),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("Tell me of the sea."),))
HELD = 20.0  # seconds; the service would hold a call so long
LONG = "so much to say about the sea, and so many words to say it with, wave after wave after wave"


@pytest.fixture(scope="module")
def server() -> Iterator[LlmockServer]:
    with llmock_server() as server:
        yield server


@pytest.fixture
def clock() -> SystemClock:
    """Take the place of the manual clock: the server's time is real."""
    return SystemClock()


@pytest.fixture(autouse=True)
def llmock(server: LlmockServer) -> LlmockServer:
    server.reset()
    return server


@pytest.fixture(params=[name for name, provider in PROVIDERS.items() if provider.llmock_path is not None])
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


@pytest.fixture
def model(llmock: LlmockServer, provider: Provider) -> Model:
    return partial(provider.make_at_llmock, llmock, api_key="sk-any")


def failure(model: HttpModel, request: ModelRequest) -> tuple[ModelError, str]:
    """Return what was raised, and what was shown before."""
    asked = Asked(model, request)
    failed = asked.ended()
    assert isinstance(failed, ModelError)
    assert all(response.partial for response in asked.responses)
    return failed, asked.text


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_an_answer_without_a_fault_is_complete_and_nothing_is_found(
    model: Model, llmock: LlmockServer, request_: ModelRequest
) -> None:
    llmock.script(type="reply", text=LONG)
    responses = list(model().generate(request_))

    assert responses[-1].content.text == LONG
    assert responses[-1].finish_reason == "stop"
    assert responses[-1].usage is not None
    assert [record["completed"] for record in llmock.requests] == [True]
    assert llmock.findings == []


def test_a_call_of_a_tool_arrives_whole(model: Model, llmock: LlmockServer) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = ToolDeclaration("weather", "The weather of a city.", parameters)
    request = ModelRequest(contents=(Content.user("Weather?"),), tools=(tool,), streaming=True)
    *partials, last = model().generate(request)

    (call,) = last.content.function_calls
    assert call.name == "weather"
    assert isinstance(call.args["city"], str)
    assert {known.id for partial in partials for known in partial.content.function_calls} == {call.id}
    assert last.finish_reason == "tool_calls"
    assert llmock.findings == []


def test_a_rate_limit_is_waited_for_as_long_as_the_service_asks(model: Model, llmock: LlmockServer) -> None:
    llmock.script(type="fail", status=429, retry_after=0.5, times=2)
    assert list(model().generate(STREAMED))[-1].content.text

    assert [record["status"] for record in llmock.requests] == [429, 429, 200]
    assert llmock.findings == []


def test_an_outage_is_given_up_after_two_retries(model: Model, llmock: LlmockServer) -> None:
    llmock.script(type="fail", status=503, times=None)
    failed, _ = failure(model(), WHOLE)

    assert (failed.kind, failed.status) == (ModelErrorKind.SERVICE, 503)
    assert len(llmock.requests) == 3
    assert not {"no_backoff", "retry_storm", "gave_up"} & {*llmock.findings}


def test_a_refusal_is_not_tried_again(model: Model, llmock: LlmockServer) -> None:
    llmock.script(type="fail", status=400, times=None)
    failed, _ = failure(model(), WHOLE)

    assert failed.kind is ModelErrorKind.VALIDATION
    assert len(llmock.requests) == 1
    assert llmock.findings == []


@pytest.mark.parametrize(
    ("kind", "error", "found"),
    [
        ("disconnect", ModelErrorKind.NETWORK, {"gave_up"}),
        ("truncate", ModelErrorKind.SERVICE, {"truncated_stream_accepted"}),
        ("malformed", ModelErrorKind.SERVICE, {"malformed_chunk_ignored"}),
    ],
)
def test_a_stream_that_breaks_is_an_error_and_is_not_asked_for_again(
    model: Model, llmock: LlmockServer, kind: str, error: ModelErrorKind, found: set[str]
) -> None:
    llmock.script(type="reply", text=LONG)
    llmock.script(type="stream_fault", kind=kind, after_chunks=4)
    failed, shown = failure(model(), STREAMED)

    assert failed.kind is error
    assert shown
    assert LONG.startswith(shown)
    assert len(llmock.requests) == 1
    # The service cannot see that we raise; it thinks that we made do with what came.
    assert {*llmock.findings} <= found


def test_a_stream_that_stalls_is_a_timeout(model: Model, llmock: LlmockServer) -> None:
    llmock.script(type="reply", text=LONG)
    llmock.script(type="stream_fault", kind="stall", after_chunks=4)
    failed, shown = failure(model(gap_timeout=0.5), STREAMED)

    assert (failed.kind, failed.limit) == (ModelErrorKind.TIMEOUT, "gap_timeout")
    assert LONG.startswith(shown)
    (record,) = llmock.requests
    assert not record["completed"]
    assert "no_read_timeout" not in llmock.findings


def test_a_first_token_that_takes_its_time_is_waited_for_and_one_that_takes_too_long_is_not(
    model: Model,
    llmock: LlmockServer,
) -> None:
    llmock.script(type="slow_first_token", seconds=0.3)
    assert list(model().generate(STREAMED))[-1].content.text
    llmock.script(type="slow_first_token", seconds=20)
    failed, _ = failure(model(first_token_timeout=0.3), STREAMED)

    assert failed.limit == "first_token_timeout"


class Phase(NamedTuple):
    """What the service is to do, and how many pieces it may have sent when the call is cancelled: as soon as
    the fewest have come, or for none as soon as the request is sent."""

    behaviors: tuple[dict[str, Any], ...]
    sent: range


WORDS = {"type": "reply", "text": LONG * 100}
STALL = {"type": "stream_fault", "kind": "stall", "after_chunks": 6, "stall_seconds": HELD}
# All in which it sees a client go. While it holds an answer in one piece back it does not look.
PHASES = {
    "headers": Phase(({"type": "delay", "seconds": 1.0},), range(1)),
    "first token": Phase(({"type": "slow_first_token", "seconds": HELD},), range(1)),
    "stalled": Phase((WORDS, STALL), range(6, 7)),
    "streaming": Phase((WORDS,), range(5, 1000)),
}


@pytest.mark.scenario("A7", "A9")
@pytest.mark.parametrize("name", PHASES)
def test_the_service_sees_in_each_phase_that_a_cancelled_call_was_aborted(
    model: Model,
    provider: Provider,
    llmock: LlmockServer,
    scope: CancelScope,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    phase, sent, has_sent = PHASES[name], Gate(), AbortHandle.sent
    sent.open()

    def told(handle: AbortHandle) -> None:
        has_sent(handle)
        sent.wait()

    monkeypatch.setattr(AbortHandle, "sent", told)
    for behavior in phase.behaviors:
        llmock.script(**behavior)
    asked = Asked(model(), STREAMED)
    sent.arrived()
    asked.has(max(0, phase.sent.start - provider.preamble))
    scope.cancel("enough")

    assert isinstance(asked.ended(), Cancelled)
    (record,) = llmock.requests
    assert not record["completed"]
    assert record["chunks_sent"] in phase.sent
    assert record["duration"] < HELD


@pytest.mark.scenario("A22")
def test_the_service_is_not_asked_again_when_a_call_is_cancelled_in_the_wait_that_it_asked_for(
    model: Model, llmock: LlmockServer, scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping, sleep = Gate(), CancelScope.sleep
    sleeping.open()

    def told(scope: CancelScope, seconds: float) -> None:
        sleeping.wait()
        sleep(scope, seconds)

    monkeypatch.setattr(CancelScope, "sleep", told)
    llmock.script(type="fail", status=429, retry_after=HELD, times=None)
    asked = Asked(model(max_retries=5), STREAMED)
    sleeping.arrived()
    scope.cancel("enough")

    assert isinstance(asked.ended(), Cancelled)
    assert [record["status"] for record in llmock.requests] == [429]
    assert not {"no_backoff", "retry_storm"} & {*llmock.findings}
