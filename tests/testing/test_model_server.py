import http.client
import json
import socket
import struct
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from chat_client import PATH, ask, connect, post
from intermission.testing import (
    Gate,
    ModelServer,
    assert_nothing_left,
    calls,
    error,
    text,
    wire,
)


def events(body: bytes) -> list[Any]:
    *data, last = body.decode().removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in data]


def test_a_plain_answer_is_a_chat_completion(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue(calls(("add", {"a": 1}), text="Let me see."))
    response = post(connection, messages=[])
    body = json.loads(response.read())

    assert response.headers["Content-Type"] == "application/json"
    assert body["object"] == "chat.completion"
    assert body["model"] == "small"
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
        ],
    }
    assert body["usage"] == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


def test_a_streamed_answer_is_a_chunk_for_each_piece(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue(text("one", "two"))
    response = post(connection, stream=True)
    chunks = events(response.read())

    assert response.headers["Content-Type"] == "text/event-stream"
    assert [chunk["object"] for chunk in chunks] == ["chat.completion.chunk"] * 4
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta.get("content") for delta in deltas] == ["", "one", "two", None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_usage_is_streamed_if_it_is_asked_for(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue("one two")
    *_, last = events(post(connection, stream=True, stream_options={"include_usage": True}).read())

    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 2


def test_one_connection_serves_many_requests(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    for number in range(3):
        server.enqueue(f"answer {number}")
        assert f"answer {number}".encode() in post(connection, stream=number % 2 == 0).read()
    assert len(server.requests) == 3


def test_requests_and_their_headers_are_kept(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue("yes")
    connection.request("POST", PATH, b'{"model": "small"}', {"X-Test": "1"})
    connection.getresponse().read()

    assert server.requests == [{"model": "small"}]
    assert server.headers[0]["x-test"] == "1"


def test_the_models_are_listed(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/v1/models")
    body = json.loads(connection.getresponse().read())

    assert [model["id"] for model in body["data"]] == ["scripted"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/none", 404), ("POST", "/v1/none", 404), ("POST", PATH, 400)]
)
def test_what_is_no_request_for_a_chat_is_refused(
    connection: http.client.HTTPConnection, method: str, path: str, status: int
) -> None:
    connection.request(method, path, b"nonsense")
    response = connection.getresponse()

    assert response.status == status
    assert json.loads(response.read())["error"]["message"]


@pytest.mark.parametrize("body", [b"[]", b"null", b"7"])
def test_a_request_that_is_no_object_is_refused(connection: http.client.HTTPConnection, body: bytes) -> None:
    connection.request("POST", PATH, body)

    assert b"not a JSON object" in connection.getresponse().read()


def test_an_error_is_answered_in_the_protocols_form(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue(error("rate_limit", "slowly", retry_after=2))
    response = post(connection)

    assert response.status == 429
    assert response.headers["Retry-After"] == "2"
    assert json.loads(response.read())["error"] == {
        "message": "slowly",
        "type": "rate_limit_error",
        "param": None,
        "code": None,
    }


@pytest.mark.parametrize("kind", ["configuration", "cancelled"])
def test_an_error_that_no_answer_means_is_refused(server: ModelServer, kind: str) -> None:
    with pytest.raises(ValueError, match=kind):
        server.enqueue(error(kind))
    server.enqueue(error(kind, status=500))


def test_wire_bytes_are_sent_as_they_are(server: ModelServer, connection: http.client.HTTPConnection) -> None:
    server.enqueue(wire(b"a\r", b"\x00\xff", status=203, content_type="text/odd", headers={"X-Test": "1"}))
    response = post(connection)

    assert (response.status, response.headers["Content-Type"], response.headers["X-Test"]) == (
        203,
        "text/odd",
        "1",
    )
    assert response.read() == b"a\r\x00\xff"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_at_a_gate_is_noticed_at_once(server: ModelServer, stream: bool) -> None:
    gate = Gate()
    server.enqueue(text("one", gate, "two"))
    client = ask(server, stream=stream)
    gate.arrived()
    assert server.aborted == 0

    client.close()
    server.wait_aborted()
    gate.open()
    assert server.aborted == 1


def test_a_client_that_does_not_take_the_whole_reply_is_noticed(server: ModelServer) -> None:
    server.enqueue(wire(b"x" * 50_000_000))
    with ask(server) as client:
        client.recv(1)

    server.wait_aborted()


def test_a_client_that_goes_away_within_its_request_is_no_error(server: ModelServer) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as client:
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        reset = struct.pack("ii", 1, 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    server.close()

    assert (server.errors, server.requests) == ([], [])


def test_a_complete_reply_is_never_an_aborted_one(server: ModelServer) -> None:
    for _ in range(50):
        server.enqueue("yes")
        with ask(server, stream=True) as client:
            body = b""
            while b"[DONE]" not in body:
                body += client.recv(65536)
    server.close()

    assert server.aborted == 0


def test_waiting_for_an_abort_is_bounded(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        server.wait_aborted(timeout=0.01)


def test_closing_lets_go_of_handlers_at_gates_and_of_idle_clients() -> None:
    gate = Gate()
    with assert_nothing_left(timeout=0):
        server = ModelServer(text("one", gate), wire(gate), "yes", strict=False)
        with ask(server, stream=True) as client, ask(server), closing(connect(server)) as idle:
            gate.arrived(2)
            post(idle).read()
            server.close()
            server.close()
            assert b"[DONE]" not in b"".join(iter(lambda: client.recv(65536), b""))
    assert server.aborted == 0


def test_closing_lets_go_of_a_client_that_does_not_read() -> None:
    gate = Gate()
    with assert_nothing_left(timeout=0):
        server = ModelServer(wire(gate, b"x" * 50_000_000), strict=False)
        with ask(server):
            gate.arrived()
            gate.open()
            server.close()


def test_a_used_up_script_refuses_the_request_and_fails_the_close() -> None:
    server = ModelServer("one", default=None, strict=False)
    with closing(connect(server)) as connection:
        post(connection).read()
        response = post(connection, messages=["two"])

        assert response.status == 400
        assert b"used up" in response.read()
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="two")):
        server.close()


def test_a_gate_that_nobody_opens_fails_the_close() -> None:
    class Impatient(Gate):
        def wait(self, timeout: float = 0.0) -> None:
            super().wait(timeout=0.0)

    server = ModelServer(text("one", Impatient()), strict=False)
    with closing(connect(server)) as connection, pytest.raises(http.client.IncompleteRead):
        post(connection, stream=True).read()

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="too long at a gate")):
        server.close()


def test_the_server_prints_nothing(server: ModelServer, capfd: pytest.CaptureFixture[str]) -> None:
    server.enqueue("yes")
    with ask(server) as client:
        client.recv(1)
    with ask(server, method="nonsense") as client:
        client.recv(1)
    server.errors.clear()
    server.close()

    assert capfd.readouterr() == ("", "")


def test_an_error_of_a_handler_is_kept_and_fails_the_close(capfd: pytest.CaptureFixture[str]) -> None:
    server = ModelServer(text("one"), strict=False)
    with closing(connect(server)) as connection:
        connection.request("POST", PATH, json.dumps({"stream": True, "stream_options": "odd"}))
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()

    with pytest.RaisesGroup(AttributeError):
        server.close()
    assert capfd.readouterr() == ("", "")


def test_errors_that_a_test_means_can_be_cleared() -> None:
    server = ModelServer(strict=False)
    with closing(connect(server)) as connection:
        post(connection).read()
    server.errors.clear()
    server.close()


def test_characters_are_sent_as_they_are_and_not_escaped(
    server: ModelServer, connection: http.client.HTTPConnection
) -> None:
    server.enqueue("a\u2028b")

    assert "a\u2028b".encode() in post(connection, stream=True).read()


@pytest.mark.parametrize("reply", [7, ["one", "two"], ValueError("no")])
def test_what_is_no_reply_is_refused_when_it_is_given(server: ModelServer, reply: Any) -> None:
    with pytest.raises(TypeError, match="takes text"):
        ModelServer(reply)
    with pytest.raises(TypeError, match="takes text"):
        server.enqueue(reply)
