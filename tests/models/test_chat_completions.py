import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from intermission.content import Content, FunctionCall
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models import ChatCompletions, ModelRequest, ModelResponse
from intermission.testing import Gate, ModelServer, calls, error, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
SAID = b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(server: ModelServer, **options: object) -> ChatCompletions:
    return ChatCompletions("small", base_url=server.url, max_retries=0, options=options)


def test_a_stream_gives_each_piece_and_then_the_whole(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(STREAMED)) == [
        ModelResponse(content=Content.model("one "), partial=True),
        ModelResponse(content=Content.model("two"), partial=True),
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop"),
    ]


def test_a_plain_answer_is_one_response(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(WHOLE)) == [
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop")
    ]


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_tool_calls_have_their_position_in_the_answer_as_their_id(
    server: ModelServer, request_: ModelRequest
) -> None:
    server.enqueue(calls(("add", {"a": 1, "text": "é"}), ("now", {}), text="Let me see."))
    *partials, last = model(server).generate(request_)

    assert last.content == Content.model(
        "Let me see.", calls=[FunctionCall("0", "add", {"a": 1, "text": "é"}), FunctionCall("1", "now", {})]
    )
    assert last.finish_reason == "tool_calls"
    assert all(partial.partial for partial in partials)
    shown = [call for partial in partials for call in partial.content.function_calls]
    assert {(call.id, call.name) for call in shown} <= {("0", "add"), ("1", "now")}
    assert bool(shown) == request_.streaming


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_an_answer_of_neither_text_nor_calls_is_empty(server: ModelServer, request_: ModelRequest) -> None:
    server.enqueue(text())

    assert [response.content for response in model(server).generate(request_)] == [Content("model", ())]


def test_options_are_sent_with_each_request(server: ModelServer) -> None:
    server.enqueue("yes")
    list(model(server, temperature=0, seed=7).generate(WHOLE))

    assert server.requests == [
        {"model": "small", "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "seed": 7}
    ]


def test_options_may_not_name_what_the_runtime_fills() -> None:
    with pytest.raises(ValueError, match="messages, stream"):
        ChatCompletions("small", options={"stream": True, "messages": []})


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize(
    "limit",
    [
        "connect_timeout",
        "first_token_timeout",
        "gap_timeout",
        "total_timeout",
        "stream_total_timeout",
    ],
)
def test_a_limit_that_is_no_positive_number_is_refused(limit: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=limit):
        ChatCompletions("small", **{limit: seconds})  # type: ignore[arg-type]  # one of several keywords


def test_text_with_a_line_separator_arrives_whole(server: ModelServer) -> None:
    server.enqueue(text("a\u2028b", "\u0085c"))

    assert list(model(server).generate(STREAMED))[-1].content.text == "a\u2028b\u0085c"


def test_a_stream_without_its_end_marker_is_an_error_and_never_an_answer(server: ModelServer) -> None:
    server.enqueue(wire(SAID))
    responses = model(server).generate(STREAMED)

    assert next(responses).partial
    with pytest.raises(ModelError, match="ended without its end marker") as caught:
        next(responses)
    assert caught.value.kind is ModelErrorKind.SERVICE


def test_a_stream_is_over_at_its_end_marker_and_waits_for_no_more(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(wire(SAID + b"data: [DONE]\n\n", gate, b"data: nonsense\n\n"))

    assert list(model(server).generate(STREAMED))[-1].content.text == "half"


def test_the_connection_is_released_before_the_last_response(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(wire(SAID + b"data: [DONE]\n\n", gate))
    responses = model(server).generate(STREAMED)

    while next(responses).partial:
        pass
    server.wait_aborted()


def test_a_malformed_chunk_is_an_error_that_shows_it(server: ModelServer) -> None:
    server.enqueue(wire(SAID, b'data: {"choices": [oops\n\n', b"data: [DONE]\n\n"))

    with pytest.raises(ModelError, match="oops") as caught:
        list(model(server).generate(STREAMED))
    assert caught.value.kind is ModelErrorKind.SERVICE


def test_an_error_object_in_a_stream_is_an_error(server: ModelServer) -> None:
    server.enqueue(wire(SAID, b'data: {"error": {"message": "out of memory"}}\n\n', b"data: [DONE]\n\n"))

    with pytest.raises(ModelError, match="out of memory"):
        list(model(server).generate(STREAMED))


def test_a_stream_that_is_not_utf8_is_an_error(server: ModelServer) -> None:
    server.enqueue(wire(b"data: \xff\n\n"))

    with pytest.raises(ModelError, match="not UTF-8"):
        list(model(server).generate(STREAMED))


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"choices": []}', b'{"error": {"message": "broken"}}'])
def test_a_plain_answer_that_is_none_is_an_error(server: ModelServer, body: bytes) -> None:
    server.enqueue(wire(body, content_type="application/json"))

    with pytest.raises(ModelError) as caught:
        list(model(server).generate(WHOLE))
    assert caught.value.kind is ModelErrorKind.SERVICE


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_short_is_still_an_answer(server: ModelServer, reason: str) -> None:
    choice = {"index": 0, "message": {"content": "so far"}, "finish_reason": reason}
    server.enqueue(wire(json.dumps({"choices": [choice]}).encode()))

    assert next(model(server).generate(WHOLE)).content.text == "so far"


def test_a_consumer_that_stops_early_hangs_up(server: ModelServer) -> None:
    server.enqueue(text("one", Gate(), "two"))
    responses = model(server).generate(STREAMED)
    next(responses)

    responses.close()
    server.wait_aborted()


def test_a_consumer_that_drops_the_answer_hangs_up(server: ModelServer) -> None:
    server.enqueue(text("one", Gate(), "two"))
    responses = model(server).generate(STREAMED)
    next(responses)

    del responses
    server.wait_aborted()


def test_a_missing_key_is_named_by_the_first_call() -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        next(ChatCompletions("small").generate(WHOLE))
    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_a_server_of_ones_own_needs_no_key(server: ModelServer) -> None:
    server.enqueue("yes")
    list(model(server).generate(WHOLE))

    assert "authorization" not in server.headers[0]


def test_address_and_key_come_from_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    server.enqueue("yes")
    list(ChatCompletions("small").generate(WHOLE))

    assert server.headers[0]["authorization"] == "Bearer sk-environment"


def test_address_and_key_that_are_given_come_before_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    server.enqueue("yes")
    given = ChatCompletions("small", base_url=server.url, api_key="sk-given")
    list(given.generate(WHOLE))

    assert server.headers[0]["authorization"] == "Bearer sk-given"
    assert "sk-given" not in repr(given)


def test_a_query_in_the_address_stays_behind_the_path(server: ModelServer) -> None:
    server.enqueue("yes")
    server.enqueue(error("validation"))
    asked = ChatCompletions("small", base_url=f"{server.url}/?version=7", max_retries=0)

    assert [answer.content.text for answer in asked.generate(WHOLE)] == ["yes"]
    with pytest.raises(ModelError, match=re.escape("/v1/chat/completions?version=7 answered 400")):
        list(asked.generate(WHOLE))


def test_many_threads_share_one_model(server: ModelServer) -> None:
    count, gate = 12, Gate()
    for number in range(count):
        server.enqueue(text(f"answer {number}, ", gate, f"end {number}"))
    shared, texts, lock = model(server), list[str](), threading.Lock()

    def ask() -> None:
        *partials, last = shared.generate(STREAMED)
        assert "".join(partial.content.text for partial in partials) == last.content.text
        with lock:
            texts.append(last.content.text)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    gate.arrived(count)  # all are in the middle of their answers at once
    gate.open()
    for thread in threads:
        thread.join(30)

    assert sorted(texts) == sorted(f"answer {number}, end {number}" for number in range(count))


def test_requests_is_not_imported_until_a_model_is_built() -> None:
    program = (
        "import sys\n"
        "from intermission.models import ChatCompletions\n"
        "assert 'requests' not in sys.modules\n"
        "ChatCompletions('small')\n"
        "assert 'requests' in sys.modules\n"
    )
    path = ":".join(entry for entry in sys.path if entry)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env={"PYTHONPATH": path})
