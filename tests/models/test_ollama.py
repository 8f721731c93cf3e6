import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Asked
from intermission.content import Content, FunctionCall, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import Model, ModelRequest, ModelResponse, Ollama
from intermission.models.failures import Failures
from intermission.models.ndjson import json_lines
from intermission.models.ollama_answer import OllamaAnswer
from intermission.testing import Cut, Gate, ModelServer, calls, error, stream, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(server: ModelServer, api_key: str = "") -> Ollama:
    return Ollama("qwen3:4b", base_url=server.root_url, api_key=api_key, max_retries=0)


def line(message: dict[str, Any] | None = None, **fields: Any) -> bytes:
    said = {} if message is None else {"message": {"role": "assistant", **message}}
    return json.dumps({**said, **fields}, ensure_ascii=False).encode() + b"\n"


def streamed(*lines: bytes) -> Any:
    return wire(*lines, content_type="application/x-ndjson")


def answer(*lines: bytes) -> ModelResponse:
    assembled = OllamaAnswer(Failures())
    for source in json_lines(lines):
        assembled.add(source)
    return assembled.response()


def test_a_stream_gives_each_piece_and_then_the_whole(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(STREAMED)) == [
        ModelResponse(content=Content.model("one "), partial=True),
        ModelResponse(content=Content.model("two"), partial=True),
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop"),
    ]
    assert server.paths == ["/api/chat"]


def test_a_plain_answer_is_one_response(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(WHOLE)) == [
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop")
    ]


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_calls_at_the_same_time_have_their_position_as_their_id(
    server: ModelServer, request_: ModelRequest
) -> None:
    server.enqueue(calls(("add", {"a": 1}), ("add", {"a": 1}), text="Let me see."))
    *_, last = model(server).generate(request_)

    same = [FunctionCall(position, "add", {"a": 1}) for position in ("0", "1")]
    assert last.content == Content.model("Let me see.", calls=same)
    assert last.finish_reason == "tool_calls"


def test_calls_that_a_server_gives_the_same_id_are_one_call_each() -> None:
    given = [{"id": "x", "function": {"name": "add", "arguments": {"a": n}}} for n in (1, 2)]
    said = answer(line({"content": "", "tool_calls": given}), line({}, **LAST))

    assert said.content.function_calls == tuple(FunctionCall(str(n - 1), "add", {"a": n}) for n in (1, 2))


def test_what_the_model_thinks_is_a_thought_and_no_text() -> None:
    said = answer(line({"content": "", "thinking": "Hm."}), line({"content": "Yes."}), line({}, **LAST))

    assert said.content.parts == (Part(text="Hm.", thought=True), Part(text="Yes."))


@pytest.mark.parametrize(
    ("last", "reason", "usage"),
    [
        (LAST, "stop", Usage(3, 2, 5)),
        ({"done": True, "done_reason": "length", "eval_count": 2}, "length", Usage(0, 2, 2, complete=False)),
        ({"done": True, "done_reason": "load"}, "load", None),
        ({"done": True, "eval_count": -1}, None, None),
    ],
)
def test_the_last_line_says_why_it_ended_and_what_it_took(
    last: dict[str, Any], reason: str | None, usage: Usage | None
) -> None:
    said = answer(line({"content": "x"}), line({"content": ""}, **last))

    assert (said.finish_reason, said.usage) == (reason, usage)


@given(st.lists(st.integers(min_value=0, max_value=400)))
def test_no_split_of_the_bytes_changes_the_answer(cuts: list[int]) -> None:
    call = {"function": {"name": "add", "arguments": {"text": "é€😀"}}}
    body = b"".join(
        (line({"thinking": "hm 😀"}), line({"content": "añ"}), line({"tool_calls": [call]}), line({}, **LAST))
    )
    places = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})

    assert answer(*(body[start:end] for start, end in pairwise(places))) == answer(body)


@pytest.mark.parametrize("cut", [Cut.END, Cut.CLOSE, Cut.RESET])
def test_a_stream_that_is_not_done_is_an_error_and_never_an_answer(server: ModelServer, cut: Cut) -> None:
    server.enqueue(stream("half", cut))
    asked = Asked(model(server), STREAMED)

    failed = asked.ended()
    assert isinstance(failed, ModelError)
    assert asked.text == "half"
    assert all(response.partial for response in asked.responses)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"message": {"content": 7}}\n',
        b'{"message": []}\n',
        b"[1]\n",
        b"<html>\n",
        b'{"message": {"tool_calls": [7]}}\n',
        b'{"message": {"tool_calls": {}}}\n',
        b'{"message": {"tool_calls": [{"function": {"arguments": {}}}]}, "done": true}\n',
        b'{"done": true}\n',
        b'{"message": {"content": "half\n',
        b"\xff\n",
    ],
)
def test_a_stream_that_breaks_the_protocol_is_a_service_error(server: ModelServer, broken: bytes) -> None:
    server.enqueue(streamed(broken))

    with pytest.raises(ModelError) as failed:
        list(model(server).generate(STREAMED))
    assert failed.value.kind is ModelErrorKind.SERVICE


def test_an_error_in_a_stream_is_the_services_error(server: ModelServer) -> None:
    server.enqueue(streamed(line({"content": "half"}), line(error="the runner has stopped")))
    asked = Asked(model(server), STREAMED)

    assert "the runner has stopped" in str(asked.ended())
    assert asked.text == "half"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (404, ModelErrorKind.VALIDATION, False),
        (401, ModelErrorKind.AUTHENTICATION, False),
        (503, ModelErrorKind.SERVICE, True),
    ],
)
def test_a_refusal_has_its_kind_and_shows_what_ollama_said(
    server: ModelServer, status: int, kind: ModelErrorKind, retryable: bool
) -> None:
    server.enqueue(error("other", "model 'qwen3:4b' not found", status=status))

    with pytest.raises(ModelError, match="'qwen3:4b' not found") as failed:
        list(model(server).generate(STREAMED))
    assert (failed.value.kind, failed.value.retryable) == (kind, retryable)


def test_a_cancel_in_a_stream_hangs_up_and_no_half_answer_is_left(
    server: ModelServer, scope: CancelScope
) -> None:
    server.enqueue(stream("one", Gate()))
    asked = Asked(model(server), STREAMED)
    asked.first()
    scope.cancel()

    assert isinstance(asked.ended(), Cancelled)
    server.wait_aborted(1)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":11500", "http://127.0.0.1:11500"),
        ("gpu-box", "http://gpu-box:11434"),
        ("gpu-box:80", "http://gpu-box:80"),
        ("[::]:11434", "http://[::1]:11434"),
        ("https://models.example/base/", "https://models.example:443/base"),
        ("http://10.0.0.1:1234", "http://10.0.0.1:1234"),
    ],
)
def test_the_host_of_the_environment_is_read_as_ollama_reads_it(
    monkeypatch: pytest.MonkeyPatch, host: str, url: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)

    assert repr(Ollama("m")) == f"Ollama('m', base_url='{url}')"


@pytest.mark.parametrize("host", ["ftp://gpu-box", "gpu-box:port", "http://[::1"])
def test_a_host_of_the_environment_that_is_no_address_is_named(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)

    with pytest.raises(ValueError, match="OLLAMA_HOST"):
        Ollama("m")


def test_the_service_on_the_internet_needs_a_key_and_one_of_your_own_needs_none(server: ModelServer) -> None:
    with pytest.raises(ModelError, match="OLLAMA_API_KEY") as failed:
        next(Ollama("m", base_url="https://ollama.com").generate(WHOLE))
    assert failed.value.kind is ModelErrorKind.CONFIGURATION

    server.enqueue("hi")
    list(model(server, api_key="k-0123456789").generate(WHOLE))
    assert server.headers[0]["authorization"] == "Bearer k-0123456789"


def test_a_model_is_found_by_its_providers_name() -> None:
    found = Model.from_name("ollama/qwen3:4b")

    assert isinstance(found, Ollama)
    assert found.name == "qwen3:4b"
