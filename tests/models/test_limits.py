"""Each time limit of a call, by a clock that the test moves."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from asking import Asked
from certificates import ca_bundle, server_context
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.models import ChatCompletions, ModelRequest
from intermission.models.abort import AbortHandle
from intermission.testing import (
    Gate,
    ManualClock,
    ModelServer,
    Pings,
    error,
    silent,
    stream,
    unaccepted,
    wire,
)
from providers import PROVIDERS
from waits import Waits, connects

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
THOUGHT = b'data: {"choices": [{"index": 0, "delta": {"reasoning": "hm"}}]}\n\n'
LIMITS = {
    "connect_timeout": 10.0,
    "first_token_timeout": 60.0,
    "gap_timeout": 60.0,
    "total_timeout": 120.0,
    "stream_total_timeout": 300.0,
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return Waits(monkeypatch)


def model(url: str, bundle: Path | None = None, **options: float | None) -> ChatCompletions:
    return ChatCompletions("small", base_url=url, ca_bundle=bundle, max_retries=0, **options)  # type: ignore[arg-type]  # keywords of one type


def expires(asked: Asked, clock: ManualClock, limit: str) -> None:
    """See that the limit passes when its time comes, and not before."""
    seconds = LIMITS[limit]
    clock.advance(seconds - 0.5)
    assert asked.is_alive()
    clock.advance(1)
    failed = asked.ended()

    assert isinstance(failed, ModelError)
    assert (failed.kind, failed.limit, failed.retryable) == (ModelErrorKind.TIMEOUT, limit, True)
    assert f"{limit}={seconds:g} s" in str(failed)


def test_a_connection_must_stand_in_time(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    connecting = connects(monkeypatch)
    with unaccepted() as url:
        asked = Asked(model(url), STREAMED)
        connecting.arrived()
        expires(asked, clock, "connect_timeout")


def test_the_handshake_of_tls_is_a_part_of_connecting(clock: ManualClock, tmp_path: Path) -> None:
    with ModelServer(silent("handshake"), tls=server_context()) as server:
        asked = Asked(model(server.url, ca_bundle(tmp_path)), STREAMED)
        server.wait_held()
        expires(asked, clock, "connect_timeout")
        server.wait_aborted()


@pytest.mark.parametrize("silence", ["request", "answer"])
def test_a_stream_must_begin_in_time(
    server: ModelServer, clock: ManualClock, waits: Waits, silence: str
) -> None:
    server.enqueue(silent(silence))
    asked = Asked(model(server.url), STREAMED)
    server.wait_held()
    waits.on("first_token_timeout")
    expires(asked, clock, "first_token_timeout")
    server.wait_aborted()


def test_a_stream_that_only_begins_has_not_said_its_first_token(
    server: ModelServer, clock: ManualClock, waits: Waits
) -> None:
    gate = Gate()
    server.enqueue(stream(gate, "one"))  # behind a chunk that holds the role alone
    asked = Asked(model(server.url), STREAMED)
    gate.arrived()
    waits.on("first_token_timeout")
    expires(asked, clock, "first_token_timeout")


def test_a_stream_must_go_on_in_time(server: ModelServer, clock: ManualClock, waits: Waits) -> None:
    server.enqueue(stream("one", Gate()))
    asked = Asked(model(server.url), STREAMED)
    asked.first()
    waits.on("gap_timeout")
    expires(asked, clock, "gap_timeout")
    server.wait_aborted()


@pytest.mark.parametrize(
    ("provider", "nothing"),
    [
        ("openai", Pings()),
        ("openai", b": ping\n\n"),
        ("openai", b'data: {"choices": []}\n\n'),
        ("openai", b'data: {"choices": [{"index": 0, "delta": {"content": ""}}]}\n\n'),
        ("openai", b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null}}]}\n\n'),
        ("openai", b'data: {"choices": [{"index": 1, "delta": {"content": "another choice"}}]}\n\n'),
        ("anthropic", Pings()),
        ("anthropic", b'data: {"type": "content_block_start", "content_block": {"type": "text"}}\n\n'),
        ("anthropic", b'data: {"type": "content_block_delta", "index": 0, "delta": {"text": ""}}\n\n'),
    ],
    ids=["pings", "comment", "no choice", "empty text", "role", "other choice", "pings", "block", "empty"],
)
def test_what_says_nothing_does_not_count_as_going_on(
    server: ModelServer, clock: ManualClock, waits: Waits, provider: str, nothing: bytes | Pings
) -> None:
    gate, second = Gate(), Gate()
    server.enqueue(stream("one", gate, nothing, second))
    asked = Asked(PROVIDERS[provider].make(server, max_retries=0), STREAMED)
    asked.first()
    gate.arrived()
    waits.on("gap_timeout")
    clock.advance(40)
    gate.open()
    if isinstance(nothing, bytes):
        second.arrived()
    waits.on("gap_timeout")
    clock.advance(15)
    assert asked.is_alive()
    while asked.is_alive() and isinstance(nothing, Pings):  # it may just have been awake, with a ping
        clock.advance(6)
        asked.join(0.05)
    clock.advance(6)

    failed = asked.ended()
    assert isinstance(failed, ModelError)
    assert failed.limit == "gap_timeout"


@pytest.mark.parametrize("piece", ["two", THOUGHT], ids=["text", "thought"])
def test_what_says_something_begins_a_new_gap(
    server: ModelServer, clock: ManualClock, waits: Waits, piece: str | bytes
) -> None:
    gates = [Gate() for _ in range(4)]
    server.enqueue(stream("one", gates[0], piece, gates[1], piece, gates[2], piece, gates[3]))
    asked = Asked(model(server.url), STREAMED)
    asked.first()
    for number, gate in enumerate(gates[:3]):
        gate.arrived()
        waits.on("gap_timeout")
        clock.advance(50)
        gate.open()
        gates[number + 1].arrived()
        asked.has(number + 2)
    gates[3].open()

    assert asked.ended() is None


def test_a_consumer_that_takes_its_time_uses_up_no_gap(server: ModelServer, clock: ManualClock) -> None:
    gate = Gate()
    server.enqueue(stream("one", gate, "two"))
    responses = model(server.url, stream_total_timeout=None).generate(STREAMED)
    assert next(responses).content.text == "one"
    gate.open()
    clock.advance(1000)

    assert [response.content.text for response in responses] == ["two", "onetwo"]


def test_a_stream_must_end_in_time_however_much_it_says(server: ModelServer, clock: ManualClock) -> None:
    gate = Gate()
    server.enqueue(stream("one", gate, "two", Gate()))
    asked = Asked(model(server.url, gap_timeout=None), STREAMED)
    asked.first()
    clock.advance(200)
    gate.open()
    asked.has(2)
    clock.advance(99)
    assert asked.is_alive()
    clock.advance(2)

    failed = asked.ended()
    assert isinstance(failed, ModelError)
    assert failed.limit == "stream_total_timeout"


def test_an_answer_in_one_piece_must_come_in_time_and_may_take_all_of_it(
    server: ModelServer, clock: ManualClock
) -> None:
    server.enqueue(silent("answer"))
    asked = Asked(model(server.url), WHOLE)
    server.wait_held()
    expires(asked, clock, "total_timeout")


def test_the_total_holds_for_the_retries_and_the_waits_before_them_too(
    server: ModelServer, clock: ManualClock
) -> None:
    server.enqueue(error("rate_limit", retry_after=50))
    patient = ChatCompletions("small", base_url=server.url, total_timeout=40.0, max_retries=5)

    failed = Asked(patient, WHOLE).ended()
    assert isinstance(failed, ModelError)
    assert failed.kind is ModelErrorKind.RATE_LIMIT
    assert len(server.requests) == 1


def test_a_refusal_whose_body_stalls_is_the_refusal_after_five_seconds(
    server: ModelServer, clock: ManualClock, waits: Waits
) -> None:
    server.enqueue(wire(b"because", Gate(), status=500))
    asked = Asked(model(server.url), WHOLE)
    waits.on("error_body", times=2)  # for more than the reason that has come
    clock.advance(4.5)
    assert asked.is_alive()
    clock.advance(1)
    failed = asked.ended()

    assert isinstance(failed, ModelError)
    assert (failed.status, failed.limit) == (500, None)
    assert str(failed).endswith("500: because")
    server.wait_aborted()


def test_no_limit_means_that_none_passes(server: ModelServer, clock: ManualClock) -> None:
    gate = Gate()
    server.enqueue(stream(gate, "one", "two"))
    asked = Asked(model(server.url, **dict.fromkeys(LIMITS)), STREAMED)
    gate.arrived()
    clock.advance(1_000_000)
    gate.open()

    assert asked.ended() is None
    assert asked.text == "onetwo"


@pytest.mark.scenario("F3")
def test_a_stream_survives_its_pauses_and_no_read_has_a_time_limit(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: set[float | None] = set()
    attach = AbortHandle.attach

    def attached(handle: AbortHandle, sock: socket.socket) -> None:
        sockets.append(sock)
        attach(handle, sock)

    sockets: list[socket.socket] = []
    monkeypatch.setattr(AbortHandle, "attach", attached)
    gates = [Gate() for _ in range(3)]
    server.enqueue(stream("one", gates[0], "two", gates[1], "three", gates[2]))
    asked = Asked(model(server.url), STREAMED)
    for gate in gates:
        gate.arrived()
        modes |= {sock.gettimeout() for sock in sockets}
        gate.open()

    assert asked.ended() is None
    assert asked.text == "onetwothree"
    assert (len(sockets), modes) == (1, {None})
