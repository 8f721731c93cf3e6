import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intermission.errors import ModelError, ModelErrorKind
from intermission.models.failures import Failures
from intermission.models.http import HttpClient
from intermission.models.limits import CallLimits, Limits
from intermission.testing import Gate, ModelServer, error, text, wire

KEY = "sk-very-secret-0123456789"
STREAM: dict[str, Any] = {"stream": True}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(strict=False) as server:  # most requests here are none that a model would get
        yield server


def client(*, key: str = KEY) -> HttpClient:
    return HttpClient(headers={"Authorization": f"Bearer {key}"}, failures=Failures(key))


def limits(**seconds: float) -> CallLimits:
    return CallLimits(Limits(**seconds), streaming=True)


def address(server: ModelServer) -> str:
    return f"{server.url}/chat/completions"


def read(url: str, http: HttpClient | None = None) -> bytes:
    with (http or client()).post(url, STREAM, limits()) as exchange:
        return b"".join(exchange.pieces())


def failure(url: str, http: HttpClient | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read(url, http)
    assert KEY not in str(caught.value)
    return caught.value


def test_a_piece_of_a_chunked_body_is_handed_on_when_it_arrives(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(text("one", gate, "two"))

    with client().post(address(server), STREAM, limits()) as exchange:
        pieces = exchange.pieces()
        body = b""
        while b'"one"' not in body:
            body += next(pieces)
        gate.arrived()
        assert b"two" not in body
        gate.open()
        assert b'"two"' in b"".join(pieces)


def test_a_piece_of_a_body_that_the_close_ends_is_handed_on_when_it_arrives(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(wire(b"one", gate, b"two"))

    with client().post(address(server), STREAM, limits()) as exchange:
        pieces = exchange.pieces()
        assert next(pieces) == b"one"
        gate.arrived()
        gate.open()
        assert b"".join(pieces) == b"two"


def test_a_piece_of_a_body_with_a_length_is_handed_on_when_it_arrives(server: ModelServer) -> None:
    gate = Gate()
    server.enqueue(wire(b"one", gate, b"two", headers={"Content-Length": "6"}))

    with client().post(address(server), STREAM, limits()) as exchange:
        pieces = exchange.pieces()
        assert next(pieces) == b"one"
        gate.arrived()
        gate.open()
        assert b"".join(pieces) == b"two"


def test_a_piece_of_a_compressed_body_is_decoded_when_it_arrives(server: ModelServer) -> None:
    gate, squeeze = Gate(), zlib.compressobj(wbits=31)
    first = squeeze.compress(b"one") + squeeze.flush(zlib.Z_SYNC_FLUSH)
    second = squeeze.compress(b"two") + squeeze.flush()
    server.enqueue(wire(first, gate, second, headers={"Content-Encoding": "gzip"}))

    with client().post(address(server), STREAM, limits()) as exchange:
        pieces = exchange.pieces()
        assert next(pieces) == b"one"
        gate.arrived()
        gate.open()
        assert b"".join(pieces) == b"two"


def test_a_block_that_raises_hangs_up(server: ModelServer) -> None:
    server.enqueue(wire(b"one", Gate(), b"two"))

    def stop_early() -> None:
        with client().post(address(server), STREAM, limits()) as exchange:
            next(exchange.pieces())
            raise KeyError

    with pytest.raises(KeyError):
        stop_early()
    server.wait_aborted()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (300, ModelErrorKind.CONFIGURATION),
        (400, ModelErrorKind.VALIDATION),
        (401, ModelErrorKind.AUTHENTICATION),
        (402, ModelErrorKind.OTHER),
        (403, ModelErrorKind.AUTHENTICATION),
        (404, ModelErrorKind.VALIDATION),
        (408, ModelErrorKind.TIMEOUT),
        (413, ModelErrorKind.VALIDATION),
        (422, ModelErrorKind.VALIDATION),
        (429, ModelErrorKind.RATE_LIMIT),
        (500, ModelErrorKind.SERVICE),
        (503, ModelErrorKind.SERVICE),
        (504, ModelErrorKind.TIMEOUT),
    ],
)
def test_each_status_has_its_kind_and_shows_the_beginning_of_its_body(
    server: ModelServer, status: int, kind: ModelErrorKind
) -> None:
    server.enqueue(wire(b"because of " + b"this " * 5000, status=status, headers={"Retry-After": "7"}))
    failed = failure(address(server))

    assert (failed.kind, failed.status, failed.retry_after) == (kind, status, 7.0)
    assert f"{status}: because of this" in str(failed)
    assert len(str(failed)) < 700


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_named_and_not_followed(server: ModelServer, status: int) -> None:
    server.enqueue(wire(b"moved", status=status, headers={"Location": "/v1/models"}))
    failed = failure(address(server))

    assert (failed.kind, failed.status) == (ModelErrorKind.CONFIGURATION, status)
    assert "redirect to /v1/models" in str(failed)


def test_the_body_of_a_redirect_is_not_read(server: ModelServer) -> None:
    server.enqueue(wire(b"moved", Gate(), status=302, headers={"Location": "/v1/models"}))

    assert failure(address(server)).kind is ModelErrorKind.CONFIGURATION
    server.wait_aborted()


@pytest.mark.parametrize("location", ["http://[::1", "\xff", "http://x:99999999/", "//", "", f"/?key={KEY}"])
def test_a_redirect_may_lead_to_no_address_at_all(server: ModelServer, location: str) -> None:
    server.enqueue(wire(b"moved", status=302, headers={"Location": location}))
    failed = failure(address(server))

    assert (failed.kind, failed.status) == (ModelErrorKind.CONFIGURATION, 302)
    assert f"redirect to {location.replace(KEY, '[key]')}" in str(failed)


def test_a_refusal_whose_body_breaks_off_shows_what_came(server: ModelServer) -> None:
    server.enqueue(wire(b"because", status=500, headers={"Content-Length": "99"}))

    assert str(failure(address(server))).endswith("500: because")


@pytest.mark.parametrize(
    "kind", ["authentication", "rate_limit", "timeout", "service", "validation", "network", "other"]
)
def test_a_scripted_error_arrives_as_its_kind(server: ModelServer, kind: str) -> None:
    server.enqueue(error(kind, "no luck", retry_after=1.5))
    failed = failure(address(server))

    assert failed.kind == kind
    if failed.status is not None:
        assert "no luck" in str(failed)
        assert failed.retry_after == 1.5


def test_a_refused_connection_is_a_network_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    failed = failure(f"http://127.0.0.1:{port}/v1")
    assert failed.kind is ModelErrorKind.NETWORK
    assert str(failed).endswith("/v1: [Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Length": "9"}, b"half"),
        ({"Transfer-Encoding": "chunked"}, b"9\r\nhalf"),
        ({"Transfer-Encoding": "chunked"}, b"4\r\nhalf\r\n"),
        ({"Transfer-Encoding": "chunked"}, b"nonsense\r\nhalf"),
    ],
)
def test_a_body_that_falls_short_of_its_framing_is_a_network_error(
    server: ModelServer, headers: dict[str, str], body: bytes
) -> None:
    server.enqueue(wire(body, headers=headers))

    assert failure(address(server)).kind is ModelErrorKind.NETWORK


def test_a_body_that_cannot_be_decoded_is_a_service_error(server: ModelServer) -> None:
    server.enqueue(wire(b"not zipped at all", headers={"Content-Encoding": "gzip"}))

    assert failure(address(server)).kind is ModelErrorKind.SERVICE


@pytest.mark.parametrize(
    "url",
    ["", "api.example/v1", "ftp://127.0.0.1/v1", "http://", "http://[::1/v1", "http://127.0.0.1:port/v1"],
)
def test_an_address_that_is_none_is_a_configuration_error(url: str) -> None:
    assert failure(url).kind is ModelErrorKind.CONFIGURATION


def test_an_address_with_credentials_is_refused_and_not_repeated() -> None:
    failed = failure("http://user:hunter2@127.0.0.1/v1")

    assert failed.kind is ModelErrorKind.CONFIGURATION
    assert "hunter2" not in str(failed)


@pytest.mark.parametrize("flaw", ["\n", " ", "é", "\x00"])
def test_a_key_that_no_header_can_hold_is_a_configuration_error(server: ModelServer, flaw: str) -> None:
    failed = failure(address(server), client(key=KEY + flaw))

    assert failed.kind is ModelErrorKind.CONFIGURATION
    assert "key" in str(failed)


def test_a_key_that_the_service_repeats_is_not_shown(server: ModelServer) -> None:
    server.enqueue(error("authentication", f"the key {KEY} is not known"))

    assert "the key [key] is not known" in str(failure(address(server)))


def test_a_payload_that_is_no_json_is_a_validation_error(server: ModelServer) -> None:
    with (
        pytest.raises(ModelError, match="JSON") as caught,
        client().post(address(server), {"x": b""}, limits()),
    ):
        pass
    assert caught.value.kind is ModelErrorKind.VALIDATION


def test_text_of_any_kind_arrives_as_it_was(server: ModelServer) -> None:
    server.enqueue("yes")
    payload = {"text": "é\u2028\ud800😀"}
    with client().post(address(server), payload, limits()) as exchange:
        json.loads(b"".join(exchange.pieces()))

    assert server.requests == [payload]


def test_a_payload_without_an_end_is_a_validation_error(server: ModelServer) -> None:
    payload: dict[str, Any] = {}
    payload["again"] = payload
    with pytest.raises(ModelError, match="JSON") as caught, client().post(address(server), payload, limits()):
        pass
    assert caught.value.kind is ModelErrorKind.VALIDATION


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    server.enqueue("yes")

    assert b"yes" in read(address(server).replace("127.0.0.1", host))


def test_a_proxy_of_the_environment_is_used_for_other_machines(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))

    assert "nothing at http://model.invalid/v1" in str(failure("http://model.invalid/v1"))


def test_credentials_of_the_netrc_file_do_not_replace_the_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password something\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.enqueue("yes")
    read(address(server))

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
