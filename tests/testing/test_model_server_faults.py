"""Faults of `ModelServer`: what it does to a client, and what it notes of that one."""

import errno
import http.client
import json
import socket
import ssl
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from urllib3.util.wait import wait_for_write

from certificates import ca_bundle, server_context
from chat_client import ask, connect, post
from intermission.testing import (
    Cut,
    Gate,
    ModelServer,
    Pings,
    Silence,
    assert_nothing_left,
    silent,
    stream,
    unaccepted,
)
from intermission.testing.replies import StreamReply


def sent(server: ModelServer, reply: StreamReply) -> bytes:
    """Return what a client gets that reads until the end of its connection."""
    server.enqueue(reply)
    with ask(server, "Connection: close", stream=True) as client:
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_stream_may_hold_any_bytes_and_ends_as_it_should(server: ModelServer) -> None:
    server.enqueue(stream("one", b"data: {oops\n\n", "two"))
    with closing(connect(server)) as connection:
        body = post(connection, stream=True).read()

    assert b'"one"' in body
    assert b"data: {oops\n\n" in body
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(("cut", "whole"), [(Cut.CLOSE, False), (Cut.END, True)])
def test_a_stream_that_is_cut_off_has_no_end_marker(server: ModelServer, cut: Cut, whole: bool) -> None:
    body = sent(server, stream("one", cut, "two"))

    assert b'"one"' in body
    assert b'"two"' not in body
    assert b"[DONE]" not in body
    assert body.endswith(b"\r\n0\r\n\r\n") is whole
    assert server.aborted == 0


def test_a_stream_can_end_in_a_reset(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(stream("one", gate, Cut.RESET))
    with ask(server, stream=True) as client:
        while b'"one"' not in client.recv(65536):
            pass
        gate.open()
        with pytest.raises(ConnectionResetError):
            client.recv(65536)


def test_pings_go_on_until_the_client_hangs_up(server: ModelServer) -> None:
    server.enqueue(stream("one", Pings(every=0.001)))
    with ask(server, stream=True) as client:
        body = b""
        while body.count(b": ping") < 5:
            body += client.recv(65536)
    server.wait_aborted()


@pytest.mark.parametrize("silence", list(Silence))
def test_a_silent_server_holds_the_client_until_that_hangs_up(server: ModelServer, silence: Silence) -> None:
    server.enqueue(silent(silence))
    with ask(server, stream=True) as client:
        server.wait_held()
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        assert server.aborted == 0
    server.wait_aborted()
    server.enqueue("yes")
    with closing(connect(server)) as connection:
        assert b"yes" in post(connection).read()


def test_waiting_for_a_client_to_be_held_is_bounded(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        server.wait_held(timeout=0.01)


def test_closing_lets_go_of_clients_that_are_held() -> None:
    with assert_nothing_left(timeout=0):
        server = ModelServer(silent("request"), silent("answer"), stream(Pings()), strict=False)
        with ask(server):
            server.wait_held()
            with ask(server), ask(server, stream=True):
                server.wait_held(2)
                server.close()
    assert server.aborted == 0


def test_the_time_of_an_abort_is_when_the_client_hung_up(server: ModelServer) -> None:
    for number in range(1, 4):
        server.enqueue(silent("answer"))
        with ask(server) as client:
            server.wait_held(number)
            before = time.monotonic()
            client.shutdown(socket.SHUT_RDWR)
            server.wait_aborted(number)
        assert before <= server.aborted_at[-1] <= time.monotonic()
    assert server.aborted == 3


def test_connections_are_counted_and_can_be_closed_while_the_server_goes_on(server: ModelServer) -> None:
    server.enqueue("one")
    server.enqueue("two")
    with closing(connect(server)) as connection:
        post(connection).read()
        server.hang_up()
        assert connection.sock.recv(1) == b""
    with closing(connect(server)) as connection:
        assert b"two" in post(connection).read()
    assert server.connections == 2


def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=ca_bundle(tmp_path))
    with ModelServer("yes", strict=False, tls=server_context()) as server:
        parts = urlsplit(server.url)
        assert parts.scheme == "https"
        secure = http.client.HTTPSConnection(parts.netloc, timeout=20, context=context)
        with closing(secure):
            assert b"yes" in post(secure).read()


def test_a_client_that_does_not_agree_on_tls_is_no_error() -> None:
    with ModelServer("yes", tls=server_context()) as server, ask(server) as client:
        while client.recv(65536):
            pass
    assert server.errors == []


def test_an_illegal_history_is_refused_and_takes_no_reply() -> None:
    with ModelServer("yes") as server, closing(connect(server)) as connection:
        refused = post(connection, messages=[{"role": "assistant", "content": "hello"}])
        body = json.loads(refused.read())
        accepted = post(connection, messages=[{"role": "user", "content": "hello"}])
        assert b"yes" in accepted.read()

    assert refused.status == 400
    assert "messages[0]: a conversation does not begin with the assistant" in body["error"]["message"]
    assert len(server.requests) == 1


def test_nobody_can_connect_to_a_port_that_accepts_nothing() -> None:
    with unaccepted() as url, socket.socket() as client:
        parts = urlsplit(url)
        client.setblocking(False)
        assert client.connect_ex((parts.hostname, parts.port)) == errno.EINPROGRESS
        assert not wait_for_write(client, timeout=0.05)
