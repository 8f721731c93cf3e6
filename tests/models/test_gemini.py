import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from certificates import ca_bundle, server_context
from intermission.content import Content, FunctionCall
from intermission.errors import ModelError, ModelErrorKind
from intermission.events import Usage
from intermission.models import Gemini, Model, ModelRequest, ModelResponse
from intermission.testing import Cut, Gate, ModelServer, calls, error, stream, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
KEY = "AIza-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(server: ModelServer, **settings: Any) -> Gemini:
    settings.setdefault("max_retries", 0)
    return Gemini("gemini-2.5-flash", base_url=server.root_url, **settings)


def failure(model: Model, request: ModelRequest = STREAMED) -> tuple[ModelError, str]:
    """Return what was raised, and what was shown before."""
    shown: list[str] = []
    with pytest.raises(ModelError) as caught:
        shown.extend(response.content.text for response in model.generate(request))
    return caught.value, "".join(shown)


def test_a_stream_gives_each_piece_and_then_the_whole(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(STREAMED)) == [
        ModelResponse(content=Content.model("one "), partial=True),
        ModelResponse(content=Content.model("two"), partial=True),
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop"),
    ]
    assert server.paths == ["/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"]


def test_a_plain_answer_is_one_response(server: ModelServer) -> None:
    server.enqueue(text("one ", "two", usage=Usage(3, 2, 5)))

    assert list(model(server).generate(WHOLE)) == [
        ModelResponse(content=Content.model("one two"), usage=Usage(3, 2, 5), finish_reason="stop")
    ]
    assert server.paths == ["/v1beta/models/gemini-2.5-flash:generateContent"]


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_tool_calls_have_their_position_in_the_answer_as_their_id(
    server: ModelServer, request_: ModelRequest
) -> None:
    server.enqueue(calls(("add", {"a": 1, "text": "é"}), ("now", {}), text="Let me see."))
    *partials, last = model(server).generate(request_)

    found = [FunctionCall("0", "add", {"a": 1, "text": "é"}), FunctionCall("1", "now", {})]
    assert last.content == Content.model("Let me see.", calls=found)
    assert last.finish_reason == "tool_calls"
    shown = [call for partial in partials for call in partial.content.function_calls]
    assert shown == (found if request_.streaming else [])


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_a_call_that_nobody_can_read_is_an_error(server: ModelServer, request_: ModelRequest) -> None:
    server.enqueue(calls(("add", "print(add(")))
    failed, _ = failure(model(server), request_)

    assert failed.kind is ModelErrorKind.SERVICE
    assert "MALFORMED_FUNCTION_CALL" in str(failed)


@pytest.mark.parametrize("cut", Cut)
def test_a_stream_that_ends_before_its_reason_is_an_error_and_never_an_answer(
    server: ModelServer, cut: Cut
) -> None:
    server.enqueue(stream("one ", "two", cut))
    failed, shown = failure(model(server))

    assert failed.kind in {ModelErrorKind.SERVICE, ModelErrorKind.NETWORK}
    assert shown in {"one two", "one ", ""}  # a reset may take with it what was not read yet
    assert cut is Cut.RESET or shown == "one two"


@pytest.mark.parametrize(
    "body", [b'data: {"candidates": [{"content"\n\n', b"data: \xff\xfe\n\n", b"event: x\n\n", b""]
)
def test_a_stream_of_what_is_no_answer_is_an_error(server: ModelServer, body: bytes) -> None:
    server.enqueue(wire(body))
    failed, shown = failure(model(server))

    assert (failed.kind, shown) == (ModelErrorKind.SERVICE, "")


def test_what_comes_behind_the_reason_for_the_end_is_waited_for(server: ModelServer) -> None:
    gate = Gate()
    last = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    usage = {"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
    first, second = (b"data: %b\n\n" % json.dumps(event).encode() for event in (last, usage))
    server.enqueue(wire(first, gate, second))
    responses = model(server).generate(STREAMED)

    assert next(responses).content.text == "x"
    gate.arrived()
    gate.open()
    assert next(responses).usage == Usage(1, 1, 2)


@pytest.mark.parametrize("body", ['{"error": %s}', '[{"error": %s}]'], ids=["object", "list"])
def test_an_error_in_place_of_a_stream_is_the_services_error(server: ModelServer, body: str) -> None:
    said = {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}
    server.enqueue(wire((body % json.dumps(said)).encode(), content_type="application/json"))
    failed, _ = failure(model(server))

    assert failed.kind is ModelErrorKind.SERVICE
    assert "overloaded" in str(failed)


def test_an_error_that_may_pass_is_tried_again_if_it_begins_the_stream_and_not_if_it_ends_it(
    server: ModelServer, slept: list[float]
) -> None:
    report = b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\r\n\r\n'
    server.enqueue(stream(report))
    server.enqueue(stream("one ", report))
    failed, shown = failure(model(server, max_retries=5))

    assert (failed.kind, failed.status, shown) == (ModelErrorKind.SERVICE, 503, "one ")
    assert len(server.requests) == 2
    assert len(slept) == 1


def test_a_server_of_tests_refuses_what_gemini_would_and_in_its_form(server: ModelServer) -> None:
    failed, _ = failure(model(server), ModelRequest(contents=(Content.model("I begin"),)))

    assert (failed.kind, failed.status) == (ModelErrorKind.VALIDATION, 400)
    assert "a conversation does not begin with the model" in str(failed)
    assert '"status": "INVALID_ARGUMENT"' in str(failed)


def test_the_key_is_sent_in_a_header_and_never_in_the_address(server: ModelServer) -> None:
    server.enqueue("yes")
    list(model(server, api_key=KEY).generate(WHOLE))

    assert server.headers[0]["x-goog-api-key"] == KEY
    assert "authorization" not in server.headers[0]
    assert KEY not in server.paths[0]


def test_address_and_key_come_from_the_environment_googles_name_for_it_first(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_BASE_URL", server.root_url)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, name)
        server.enqueue("yes")
        list(Model.from_name("gemini/any").generate(WHOLE))
    server.enqueue("yes")
    list(Gemini("any", api_key="mine").generate(WHOLE))

    keys = [headers["x-goog-api-key"] for headers in server.headers]
    assert keys == ["GEMINI_API_KEY", "GOOGLE_API_KEY", "mine"]


def test_a_missing_key_is_named_by_the_first_call() -> None:
    failed, _ = failure(Gemini("any"))

    assert failed.kind is ModelErrorKind.CONFIGURATION
    assert "set GEMINI_API_KEY or GOOGLE_API_KEY" in str(failed)


def test_a_server_of_ones_own_needs_no_key(server: ModelServer) -> None:
    server.enqueue("yes")
    list(model(server).generate(WHOLE))

    assert "x-goog-api-key" not in server.headers[0]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("a?key=b#c d", "models/a%3Fkey%3Db%23c%20d"),
    ],
)
def test_a_name_is_a_models_or_the_path_of_one_and_a_query_stays_behind_it(name: str, path: str) -> None:
    with ModelServer("yes") as server:
        list(Gemini(name, base_url=f"{server.root_url}/?here=1").generate(STREAMED))

        assert server.paths == [f"/v1beta/{path}:streamGenerateContent?alt=sse&here=1"]


def test_options_are_sent_with_each_request_and_may_not_name_what_the_runtime_fills(
    server: ModelServer,
) -> None:
    server.enqueue("yes")
    list(model(server, options={"temperature": 0}).generate(WHOLE))

    assert server.requests[0]["generationConfig"] == {"temperature": 0}
    with pytest.raises(ValueError, match="options may not hold system_instruction"):
        model(server, options={"system_instruction": "x"})


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ModelErrorKind.VALIDATION, False),
        (401, ModelErrorKind.AUTHENTICATION, False),
        (403, ModelErrorKind.AUTHENTICATION, False),
        (404, ModelErrorKind.VALIDATION, False),
        (429, ModelErrorKind.RATE_LIMIT, True),
        (500, ModelErrorKind.SERVICE, True),
        (503, ModelErrorKind.SERVICE, True),
        (504, ModelErrorKind.TIMEOUT, True),
    ],
)
def test_each_status_has_its_kind(
    server: ModelServer, status: int, kind: ModelErrorKind, retryable: bool
) -> None:
    server.enqueue(error(kind, "because", status=status))
    failed, _ = failure(model(server, api_key=KEY))

    assert (failed.kind, failed.status, failed.retryable) == (kind, status, retryable)
    assert "because" in str(failed)
    assert KEY not in str(failed)


def refusal(status: int, *details: object) -> bytes:
    said = {"code": status, "message": "no", "status": "X", "details": details}
    return json.dumps({"error": said}).encode()


def test_a_key_that_is_not_valid_is_an_error_of_authentication_whatever_its_status(
    server: ModelServer,
) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    server.enqueue(wire(refusal(400, info), status=400))
    failed, _ = failure(model(server))

    assert (failed.kind, failed.status) == (ModelErrorKind.AUTHENTICATION, 400)


def test_a_wait_that_the_details_ask_for_is_kept_and_one_in_the_header_comes_first(
    server: ModelServer,
) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    for headers in ({}, {"Retry-After": "7"}):
        server.enqueue(wire(refusal(429, info), status=429, headers=headers))

    assert [failure(model(server))[0].retry_after for _ in range(2)] == [34.5, 7.0]


def test_a_quota_of_a_day_is_not_waited_for(server: ModelServer, slept: list[float]) -> None:
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    server.enqueue(wire(refusal(429, quota, {"retryDelay": "34s"}), status=429))
    server.enqueue("never asked for")
    failed, _ = failure(model(server, max_retries=2))

    assert (failed.kind, failed.retryable) == (ModelErrorKind.RATE_LIMIT, False)
    assert slept == []
    assert len(server.requests) == 1


def test_a_quota_of_a_minute_is_waited_for(server: ModelServer, slept: list[float]) -> None:
    quota = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
    server.enqueue(wire(refusal(429, quota, {"retryDelay": "34s"}), status=429))
    server.enqueue("here I am")

    assert list(model(server, max_retries=2).generate(WHOLE))[-1].content.text == "here I am"
    assert 34.0 <= slept[0] <= 35.0


def test_a_certificate_of_ones_own_is_trusted(tmp_path: Path) -> None:
    with ModelServer("yes", tls=server_context()) as server:
        gemini = model(server, ca_bundle=ca_bundle(tmp_path))
        assert next(gemini.generate(WHOLE)).content.text == "yes"
        gemini.close()


def test_its_form_for_people_shows_no_key(server: ModelServer) -> None:
    assert re.fullmatch(
        r"Gemini\('gemini-2.5-flash', base_url='http://[^']*'\)", repr(model(server, api_key=KEY))
    )
