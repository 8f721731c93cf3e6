"""Which connections are kept between calls, and which never."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from urllib3 import BaseHTTPResponse
from urllib3.connection import HTTPConnection

from asking import Asked
from certificates import ca_bundle, server_context
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import ChatCompletions, ModelRequest
from intermission.models.connections import drain
from intermission.testing import Cut, Gate, ModelServer, Pings, assert_nothing_left, error, stream, text, wire

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
END = b"data: [DONE]\n\n"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return ca_bundle(tmp_path)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(tls=server_context()) as server:
        yield server


@pytest.fixture
def model(server: ModelServer, bundle: Path) -> Iterator[ChatCompletions]:
    with closing(ChatCompletions("small", base_url=server.url, ca_bundle=bundle, max_retries=0)) as model:
        yield model


def idle(model: ChatCompletions) -> list[HTTPConnection]:
    """Return the idle connections that a model keeps."""
    adapter = model._http._adapter  # pyright: ignore[reportPrivateUsage]  # nobody else needs to know
    (pool,) = (adapter.poolmanager.pools[key] for key in adapter.poolmanager.pools.keys())  # noqa: SIM118  # it refuses to be iterated itself
    return [connection for connection in pool.pool.queue if connection is not None]


def ask(model: ChatCompletions, request: ModelRequest = STREAMED) -> str:
    return list(model.generate(request))[-1].content.text


def test_a_connection_over_tls_serves_call_after_call(server: ModelServer, model: ChatCompletions) -> None:
    for number, request in enumerate([STREAMED, WHOLE, STREAMED]):
        server.enqueue(text("number ", str(number)))
        assert ask(model, request) == f"number {number}"

    assert server.connections == 1


def test_a_connection_without_tls_serves_one_call_and_leaves_nothing_behind() -> None:
    with ModelServer("one", "two") as server:
        model = ChatCompletions("small", base_url=server.url)
        with assert_nothing_left():
            assert [ask(model), ask(model)] == ["one", "two"]
        assert server.connections == 2


def test_closing_a_model_leaves_no_connection_and_it_can_be_used_again(
    server: ModelServer, bundle: Path
) -> None:
    with ModelServer("one", "two", tls=server_context()) as server, assert_nothing_left():
        model = ChatCompletions("small", base_url=server.url, ca_bundle=bundle)
        assert ask(model) == "one"
        model.close()
        assert ask(model) == "two"
        model.close()
    assert server.connections == 2


def test_a_model_that_is_dropped_leaves_no_connection(bundle: Path) -> None:
    with ModelServer("one", tls=server_context()) as server, assert_nothing_left():
        model = ChatCompletions("small", base_url=server.url, ca_bundle=bundle)
        assert ask(model) == "one"
        del model


@pytest.mark.parametrize(
    "reply",
    [
        stream("one", END, Gate()),
        stream("one", END, Pings()),
        stream("one", END, b"x" * 100_000, Gate()),
        stream("one", END, Cut.CLOSE),
    ],
    ids=["open", "pings", "much", "closed"],
)
def test_what_follows_the_end_marker_is_not_waited_for_and_its_connection_not_kept(
    server: ModelServer, model: ChatCompletions, reply: object
) -> None:
    server.enqueue(reply)  # type: ignore[arg-type]  # one of the server's replies
    server.enqueue("two")

    assert [ask(model), ask(model)] == ["one", "two"]
    assert server.connections == 2


@pytest.mark.scenario("A6")
def test_a_connection_that_was_aborted_serves_nobody_else(
    server: ModelServer, model: ChatCompletions
) -> None:
    server.enqueue(stream("one", Gate()))
    with CancelScope() as scope:
        responses = model.generate(STREAMED)
        next(responses)
        scope.cancel()
        with pytest.raises(Cancelled):
            next(responses)
    server.enqueue("two")

    assert ask(model) == "two"
    assert server.connections == 2


def test_a_cancel_reaches_a_connection_that_was_kept(
    server: ModelServer, model: ChatCompletions, scope: CancelScope
) -> None:
    server.enqueue("one")
    server.enqueue(stream("two", Gate()))
    assert ask(model) == "one"
    asked = Asked(model, STREAMED)
    asked.first()
    scope.cancel("enough")
    server.wait_aborted()

    assert isinstance(asked.ended(), Cancelled)
    assert server.connections == 1


def test_a_connection_that_is_aborted_at_the_end_of_its_answer_is_not_kept(
    server: ModelServer, model: ChatCompletions, scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel_and_drain(answer: BaseHTTPResponse) -> None:
        scope.cancel("enough")
        drain(answer)

    monkeypatch.setattr("intermission.models.http.drain", cancel_and_drain)
    server.enqueue("one")

    with pytest.raises(Cancelled):
        ask(model)
    assert [connection for connection in idle(model) if not connection.is_closed] == []


def test_a_cancel_after_the_end_of_a_call_does_not_reach_its_connection(
    server: ModelServer, model: ChatCompletions
) -> None:
    gate = Gate()
    server.enqueue("one")
    server.enqueue(stream("two", gate))
    with CancelScope() as scope:
        assert ask(model) == "one"
    with CancelScope():
        responses = model.generate(STREAMED)
        assert next(responses).content.text == "two"
        scope.cancel("too late")
        gate.open()
        assert list(responses)[-1].content.text == "two"

    assert server.connections == 1


def test_an_answer_that_breaks_off_or_is_refused_takes_its_connection_with_it(
    server: ModelServer, model: ChatCompletions
) -> None:
    server.enqueue(stream("one", Cut.END))
    server.enqueue(error("service"))
    server.enqueue("two")
    for _ in range(2):
        with pytest.raises(ModelError):
            ask(model)

    assert ask(model) == "two"


def test_a_kept_connection_that_the_service_has_closed_is_not_used(
    server: ModelServer, model: ChatCompletions
) -> None:
    server.enqueue("one")
    server.enqueue("two")
    assert ask(model) == "one"
    server.hang_up()

    assert ask(model) == "two"
    assert server.connections == 2


def test_a_forked_child_uses_no_connection_of_its_parent(
    server: ModelServer, model: ChatCompletions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in ("parent", "child", "child again"):
        server.enqueue(answer)
    assert ask(model) == "parent"
    other = os.getpid() + 1
    monkeypatch.setattr("intermission.models.connections.os.getpid", lambda: other)

    assert [ask(model), ask(model)] == ["child", "child again"]
    assert server.connections == 2


def test_no_more_than_ten_connections_to_a_host_are_kept(
    server: ModelServer, bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate, count = Gate(), 14
    model = ChatCompletions("small", base_url=server.url, ca_bundle=bundle)
    with closing(model):
        for _ in range(count):
            server.enqueue(stream("one", gate))
        calls = [Asked(model, STREAMED) for _ in range(count)]
        gate.arrived(count)
        gate.open()
        assert [call.ended() for call in calls] == [None] * count
        assert server.connections == count
        for _ in range(count):
            server.enqueue("two")
        assert [ask(model) for _ in range(count)] == ["two"] * count
        assert server.connections == count
        assert len(idle(model)) == 10
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_certificate_that_nobody_vouches_for_is_a_network_error(server: ModelServer) -> None:
    with pytest.raises(ModelError, match="certificate verify failed") as caught:
        ask(ChatCompletions("small", base_url=server.url, max_retries=0))

    assert caught.value.kind is ModelErrorKind.NETWORK


@pytest.mark.parametrize("content", [None, "nonsense"])
def test_certificates_that_cannot_be_read_are_a_configuration_error(
    server: ModelServer, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "certificates"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ModelError, match="certificates") as caught:
        ask(ChatCompletions("small", base_url=server.url, ca_bundle=path))

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_certificates_are_taken_from_the_environment_if_none_are_given(
    server: ModelServer, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    server.enqueue("yes")

    with closing(ChatCompletions("small", base_url=server.url)) as model:
        assert ask(model) == "yes"


def test_a_socks_proxy_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(ModelError, match="SOCKS proxies are not supported") as caught:
        ask(ChatCompletions("small", base_url="http://model.invalid/v1"))

    assert caught.value.kind is ModelErrorKind.CONFIGURATION


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer("yes") as server, socket.create_server(("127.0.0.1", 0)) as closed:
        port = int(server.url.rpartition(":")[2].removesuffix("/v1"))
        nobody = closed.getsockname()[1]
        closed.close()
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", number)) for number in (nobody, port)
        ]

        def look_up(*asked: object) -> list[object]:
            return [*addresses]

        monkeypatch.setattr("intermission.models.connections.socket.getaddrinfo", look_up)

        assert ask(ChatCompletions("small", base_url="http://two.localhost/v1")) == "yes"


def test_a_proxy_that_refuses_to_connect_is_a_network_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.removesuffix("/v1"))
        with pytest.raises(ModelError, match="Tunnel connection failed: 501") as caught:
            ask(ChatCompletions("small", base_url="https://model.invalid/v1", max_retries=0))

    assert caught.value.kind is ModelErrorKind.NETWORK


def test_a_body_without_a_length_leaves_no_connection_to_keep(
    server: ModelServer, model: ChatCompletions
) -> None:
    said = b'data: {"choices": [{"index": 0, "delta": {"content": "one"}}]}\n\n'
    server.enqueue(wire(said, END))
    server.enqueue("two")

    assert [ask(model), ask(model)] == ["one", "two"]
    assert server.connections == 2
