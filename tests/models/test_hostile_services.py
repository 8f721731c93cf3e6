"""Services that answer with what nobody should send: each such call is a `ModelError` and nothing else."""

import json
import socket
import socketserver
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from intermission import App, LlmAgent, Runner
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.models import ChatCompletions, ModelRequest
from intermission.testing import Gate, ModelServer, wire
from intermission.testing.loopback import LoopbackServer
from intermission_storage import MemoryEventLog
from providers import PROVIDERS

KEY = "sk-very-secret-0123456789"
STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
END = b"data: [DONE]\n\n"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(url: str, key: str = KEY) -> ChatCompletions:
    return ChatCompletions("small", base_url=url, api_key=key, max_retries=0)


def failure(model: ChatCompletions, request: ModelRequest = STREAMED) -> ModelError:
    with pytest.raises(ModelError) as caught:
        list(model.generate(request))
    return caught.value


def chunk(content: str, **more: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": content}}], **more}).encode()


def chain(error: BaseException | None) -> str:
    """Return the texts of an error and of all that it leads to, shown in a traceback or not."""
    if error is None:
        return ""
    return f"{error} {error!r} {chain(error.__cause__)} {chain(error.__context__)}"


@contextmanager
def raw_server(answer: bytes) -> Generator[str]:
    """Serve the same bytes to every request; the block gets the base address."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.rfile.read(length)
            self.wfile.write(answer)

    errors: list[BaseException] = []
    server = LoopbackServer(Handler, errors)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/v1"
    finally:
        server.stop()
    assert errors == []


# A key that the service repeats


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (f"HTTP/1.1 {KEY} what\r\n\r\n", "BadStatusLine"),
        (f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\nx", "broken"),
        (f"HTTP/1.1 200 OK\r\n\r\ndata: {KEY}\n\n", "no chat completion"),
        (f"HTTP/1.1 401 {KEY}\r\nContent-Length: 0\r\n\r\n", "[key]"),
    ],
    ids=["status line", "chunk size", "data", "reason"],
)
def test_a_key_that_the_service_repeats_is_in_no_error_of_the_chain(answer: str, shown: str) -> None:
    with raw_server(answer.encode()) as url:
        failed = failure(model(url))

    assert shown in str(failed)
    assert KEY not in chain(failed)


@pytest.mark.parametrize("key", [KEY, "another-key-of-the-header"])
def test_a_key_in_the_query_of_the_address_is_in_no_error_of_the_chain(key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    asked = model(f"http://127.0.0.1:{port}/v1?version=7&key={KEY}", key)

    failed = failure(asked)

    assert failed.kind is ModelErrorKind.NETWORK
    assert "version=7&key=[key]" in str(failed)
    assert KEY not in chain(failed)
    assert KEY not in repr(asked)


def test_a_cause_that_does_not_show_the_key_is_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert isinstance(failure(model(f"http://127.0.0.1:{port}/v1")).__cause__, OSError)


# Answers that cannot be read


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_json_of_endless_depth_is_a_service_error(server: ModelServer, request_: ModelRequest) -> None:
    body = b'{"choices": ' + b"[" * 200_000
    server.enqueue(wire(b"data: " + body + b"\n\n" if request_.streaming else body))
    failed = failure(model(server.url), request_)

    assert failed.kind is ModelErrorKind.SERVICE
    assert isinstance(failed.__cause__, RecursionError)


def test_a_deep_error_in_place_of_a_stream_is_a_service_error(server: ModelServer) -> None:
    server.enqueue(wire(b'{"error": ' + b"[" * 20_000))

    assert failure(model(server.url)).kind is ModelErrorKind.SERVICE


def test_a_character_that_is_split_between_chunks_is_shown_whole(server: ModelServer) -> None:
    chunks = [chunk("a\ud83d"), chunk("\ude00b"), chunk("\ud83d")]
    server.enqueue(wire(*(b"data: " + data + b"\n\n" for data in chunks), END))
    *partials, last = model(server.url).generate(STREAMED)

    assert [partial.content.text for partial in partials] == ["a", "😀b", "\ufffd"]
    assert last.content == Content.model("a😀b\ufffd")
    assert not last.partial


# Plain answers to a request for a stream


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "no such model", "code": 503}}',
        b'\r\n {"error": "no such model"}',
        b'\xef\xbb\xbf{"error": "no such model"}',
        b'{"object": "error", "message": "no such model"}',
    ],
)
def test_an_error_in_place_of_a_stream_is_the_services_error(
    server: ModelServer, body: bytes, content_type: str
) -> None:
    server.enqueue(wire(body, content_type=content_type))
    failed = failure(model(server.url))

    assert failed.kind is ModelErrorKind.SERVICE
    assert str(failed) == "the service reported an error inside its answer: no such model"


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"message": {"content": "hi"}}]}',
        b'{"detail": "hi"}',
        b'[{"hi": 1}]',
        b'{"hi": ',
        b'{"hi": "' + b"x" * 200_000,
        b"<html>hi",
    ],
    ids=["completion", "object", "list", "torn", "long", "page"],
)
def test_a_plain_answer_to_a_streaming_request_is_an_error_that_says_so(
    server: ModelServer, body: bytes
) -> None:
    server.enqueue(wire(body, content_type="application/json"))
    failed = failure(model(server.url))

    assert failed.kind is ModelErrorKind.SERVICE
    assert "did not stream" in str(failed)
    assert "hi" in str(failed)
    assert len(str(failed)) < 600


def test_no_more_than_the_beginning_is_read_of_a_plain_answer_to_a_streaming_request(
    server: ModelServer,
) -> None:
    server.enqueue(wire(b"{" + b"x" * 100_000, Gate()))

    assert "did not stream" in str(failure(model(server.url)))
    server.wait_aborted()


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (b'event: error\ndata: {"message": "too many"}', "inside its answer: too many"),
        (b'error: {"message": "too many"}', 'end marker: error: {"message": "too many"}'),
    ],
)
def test_an_error_in_a_form_of_its_own_is_shown(server: ModelServer, event: bytes, shown: str) -> None:
    server.enqueue(wire(event + b"\n\n"))

    assert str(failure(model(server.url))).endswith(shown)


def test_a_whole_answer_may_begin_with_a_byte_order_mark(server: ModelServer) -> None:
    server.enqueue(wire(b'\xef\xbb\xbf{"choices": [{"message": {"content": "hi"}}]}'))
    [answer] = model(server.url).generate(WHOLE)

    assert answer.content == Content.model("hi")


def test_a_stream_with_the_content_type_of_json_is_a_stream(server: ModelServer) -> None:
    stream = b"\n\n: ping\n\ndata: " + chunk("hi") + b"\n\n" + END
    server.enqueue(wire(stream, content_type="application/json"))

    assert list(model(server.url).generate(STREAMED))[-1].content.text == "hi"


def test_a_stream_that_begins_with_an_empty_line_is_handed_on_when_it_arrives(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(wire(b"\n", b"data: " + chunk("hi") + b"\n\n", gate, END))
    responses = model(server.url).generate(STREAMED)

    assert next(responses).content.text == "hi"
    gate.open()
    assert not next(responses).partial


# A session goes on


def run(server: ModelServer, log: MemoryEventLog, message: str) -> str:
    app = App("hostile", LlmAgent("agent", model(server.url)))
    with Runner(app, log=log) as runner:
        return runner.run(user_id="u", session_id="s", message=message).answer()


def called(arguments: str, **more: object) -> bytes:
    call = {"id": "x", "type": "function", "function": {"name": "now", "arguments": arguments}}
    return json.dumps({"choices": [{"message": {"tool_calls": [call]}}], **more}).encode()


@pytest.mark.parametrize("arguments", ['{"a": NaN}', '{"a": 1e999}', f'{{"a": {2**70}}}'])
def test_arguments_that_no_log_can_store_fail_one_run_and_not_the_session(
    server: ModelServer, arguments: str
) -> None:
    server.enqueue(wire(called(arguments)))
    server.enqueue("after")
    log = MemoryEventLog()

    with pytest.raises(ModelError, match="the arguments of tool call 'now'"):
        run(server, log, "one")
    assert run(server, log, "two") == "after"


def test_odd_counts_and_halves_of_characters_do_not_fail_a_run(server: ModelServer) -> None:
    usage = {"prompt_tokens": "7", "completion_tokens": 2**70, "total_tokens": -1}
    server.enqueue(wire(called('{"a": "\\ud83d"}', usage=usage)))
    server.enqueue("after")

    assert run(server, MemoryEventLog(), "one") == "after"


def test_the_deepest_arguments_that_are_taken_can_be_stored_and_sent_back(server: ModelServer) -> None:
    deep = f'{{"a": {"[" * 49}1{"]" * 49}}}'
    server.enqueue(wire(called(deep)))
    server.enqueue("after")

    assert run(server, MemoryEventLog(), "one") == "after"
    assert server.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"] == deep


# A half of a character where no text of the model stands


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_a_reason_that_is_half_a_character_can_be_stored(provider: str, server: ModelServer) -> None:
    half = json.loads(PROVIDERS[provider].whole)
    ended: dict[str, dict[str, Any]] = {
        "openai": {"choices": [{**half.get("choices", [{}])[0], "finish_reason": "\ud800"}]},
        "anthropic": {"stop_reason": "\ud800"},
        "gemini": {"candidates": [{**half.get("candidates", [{}])[0], "finishReason": "\ud800"}]},
        "ollama": {"done": True, "done_reason": "\ud800"},
    }
    server.enqueue(wire(json.dumps({**half, **ended[provider]}).encode(), content_type="application/json"))
    (said,) = PROVIDERS[provider].make(server).generate(WHOLE)

    assert (said.text, said.finish_reason) == ("half", "\ufffd")
