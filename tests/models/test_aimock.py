"""Ollama's protocol as others understand it. Real time: the server's pauses are fractions of seconds."""

from collections.abc import Iterator
from typing import Any

import pytest

from aimock_server import aimock_server
from asking import Asked
from intermission.content import Content, FunctionCall
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.clock import SystemClock
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import ModelRequest, ModelResponse, Ollama, ToolDeclaration

pytestmark = pytest.mark.long

SAID = "so much to say about the sea"
SLOW = {"latency": 30, "chunkSize": 4}  # milliseconds, characters
LOOK = ToolDeclaration("look", "Look.", {"type": "object", "properties": {"place": {"type": "string"}}})
CALLS = [{"name": "look", "arguments": f'{{"place": "{place}"}}'} for place in ("Utrecht", "Delft")]
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "sea"}, "response": {"content": SAID}, "chunkSize": 4},
    {"match": {"userMessage": "weather"}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "cut"}, "response": {"content": SAID}, "truncateAfterChunks": 2, **SLOW},
    {"match": {"userMessage": "gone"}, "response": {"content": SAID}, "disconnectAfterMs": 100, **SLOW},
    {"match": {"userMessage": "slow"}, "response": {"content": SAID * 100}, "latency": 200, "chunkSize": 4},
    {"match": {"userMessage": "many"}, "response": {"error": {"message": "too many"}, "status": 429}},
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with aimock_server(tmp_path_factory.mktemp("aimock"), FIXTURES) as address:
        yield address


@pytest.fixture
def clock() -> SystemClock:
    """Take the place of the manual clock: the server's time is real."""
    return SystemClock()


def asked(address: str, message: str, *, streaming: bool) -> Asked:
    request = ModelRequest(contents=(Content.user(message),), tools=(LOOK,), streaming=streaming)
    return Asked(Ollama("qwen3:4b", base_url=address, max_retries=0), request)


def last(asking: Asked) -> ModelResponse:
    assert asking.ended() is None
    return asking.responses[-1]


@pytest.mark.parametrize("streaming", [True, False])
def test_an_answer_is_whole_whatever_its_pieces(address: str, streaming: bool) -> None:
    asking = asked(address, "sea", streaming=streaming)

    assert (last(asking).content, last(asking).finish_reason) == (Content.model(SAID), "stop")
    assert asking.text == (SAID if streaming else "")


@pytest.mark.parametrize("streaming", [True, False])
def test_calls_at_the_same_time_are_two_calls(address: str, streaming: bool) -> None:
    said = last(asked(address, "weather", streaming=streaming))

    places = [("0", "Utrecht"), ("1", "Delft")]
    assert said.content.function_calls == tuple(
        FunctionCall(call, "look", {"place": place}) for call, place in places
    )
    assert said.finish_reason == "tool_calls"


@pytest.mark.parametrize("fault", ["cut", "gone"])
def test_a_stream_that_breaks_is_an_error_and_never_an_answer(address: str, fault: str) -> None:
    asking = asked(address, fault, streaming=True)

    failed = asking.ended()
    assert isinstance(failed, ModelError)
    assert failed.kind is ModelErrorKind.NETWORK
    assert asking.text
    assert SAID.startswith(asking.text)


def test_a_refusal_has_its_kind(address: str) -> None:
    failed = asked(address, "many", streaming=True).ended()

    assert isinstance(failed, ModelError)
    assert failed.kind is ModelErrorKind.RATE_LIMIT


def test_a_cancel_in_a_stream_frees_the_caller_with_no_half_answer(address: str, scope: CancelScope) -> None:
    asking = asked(address, "slow", streaming=True)
    asking.first()
    scope.cancel()

    assert isinstance(asking.ended(), Cancelled)
    assert all(response.partial for response in asking.responses)
