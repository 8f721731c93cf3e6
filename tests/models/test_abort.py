"""A cancel in each phase of a call: the service sees the connection close, and the caller is free."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from asking import Asked
from certificates import ca_bundle, server_context
from intermission.content import Content
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import ChatCompletions, ModelRequest
from intermission.models.http_model import HttpModel
from intermission.testing import Gate, ModelServer, Pings, error, silent, stream, unaccepted, wire
from providers import PROVIDERS, Provider
from sockets import unsent
from waits import connects

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
LARGE = ModelRequest(contents=(Content.user("x" * 20_000_000),))
KEY = "sk-very-secret-0123456789"
# The others send and receive by the same code, so one kind of connection is enough for each.
EACH = [("openai", "plain"), ("openai", "tls"), *((name, "tls") for name in PROVIDERS if name != "openai")]


@pytest.fixture(params=["plain", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    with ModelServer(tls=server_context() if request.param == "tls" else None) as server:
        yield server


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[getattr(request, "param", "openai")]


@pytest.fixture
def model(server: ModelServer, provider: Provider, tmp_path: Path) -> Iterator[HttpModel]:
    with closing(provider.make(server, api_key=KEY, ca_bundle=ca_bundle(tmp_path))) as model:
        yield model


Reached: TypeAlias = Callable[[ModelServer, Asked], None]


class Phase(NamedTuple):
    """How to get a call into a phase: what it asks, and what waits until it is there."""

    request: ModelRequest
    reached: Reached


def held(number: int) -> Reached:
    def reached(server: ModelServer, asked: Asked) -> None:
        server.wait_held(number)

    return reached


def shown(server: ModelServer, asked: Asked) -> None:
    asked.first()


def at(gate: Gate) -> Reached:
    def reached(server: ModelServer, asked: Asked) -> None:
        gate.arrived()

    return reached


def silence(name: str, request: ModelRequest = STREAMED) -> Callable[[ModelServer, Provider], Phase]:
    def phase(server: ModelServer, provider: Provider) -> Phase:
        server.enqueue(silent(name))
        return Phase(request, held(server.held + 1))

    return phase


def stalled(server: ModelServer, provider: Provider) -> Phase:
    server.enqueue(stream("one", Gate()))
    return Phase(STREAMED, shown)


def pinged(server: ModelServer, provider: Provider) -> Phase:
    server.enqueue(stream("one", Pings()))
    return Phase(STREAMED, shown)


def streaming(server: ModelServer, provider: Provider) -> Phase:
    server.enqueue(stream(*["word "] * 200_000))
    return Phase(STREAMED, shown)


def before_the_first_token(server: ModelServer, provider: Provider) -> Phase:
    gate = Gate()
    server.enqueue(stream(gate, "one"))
    return Phase(STREAMED, at(gate))


def without_a_length(server: ModelServer, provider: Provider) -> Phase:
    server.enqueue(wire(provider.said, Gate()))
    return Phase(STREAMED, shown)


def within_a_whole_answer(server: ModelServer, provider: Provider) -> Phase:
    gate = Gate()
    server.enqueue(wire(provider.whole[:9], gate, headers={"Content-Length": "99"}))
    return Phase(WHOLE, at(gate))


def within_a_whole_answer_without_a_length(server: ModelServer, provider: Provider) -> Phase:
    gate = Gate()
    server.enqueue(wire(provider.whole, gate))
    return Phase(WHOLE, at(gate))


def within_a_refusal(server: ModelServer, provider: Provider) -> Phase:
    gate = Gate()
    server.enqueue(wire(b"because", gate, status=503))
    return Phase(STREAMED, at(gate))


def sending(server: ModelServer, provider: Provider) -> Phase:
    server.enqueue(silent("request"))
    port, number = server.url.rpartition(":")[2].removesuffix("/v1"), server.held + 1

    def reached(server: ModelServer, asked: Asked) -> None:
        server.wait_held(number)
        while unsent(int(port)) < 200_000:
            assert asked.is_alive()

    return Phase(LARGE, reached)


PHASES = {
    "sending": sending,
    "headers": silence("answer"),
    "before the first token": before_the_first_token,
    "stalled": stalled,
    "pinged": pinged,
    "streaming": streaming,
    "without a length": without_a_length,
    "whole": within_a_whole_answer,
    "whole without a length": within_a_whole_answer_without_a_length,
    "refusal": within_a_refusal,
}


@pytest.mark.scenario("A7", "A9")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("provider", "server"), EACH, indirect=True)
def test_a_cancel_in_any_phase_hangs_up_and_frees_the_caller(
    server: ModelServer, provider: Provider, model: HttpModel, scope: CancelScope, phase: str
) -> None:
    request, reached = PHASES[phase](server, provider)
    asked = Asked(model, request)
    reached(server, asked)

    assert scope.cancel("enough", source="caller")
    assert not scope.cancel("twice")
    server.wait_aborted()
    outcome = asked.ended()

    assert isinstance(outcome, Cancelled)
    assert (outcome.reason, outcome.source) == ("enough", "caller")
    assert (outcome.__cause__, outcome.__context__) == (None, None)
    assert all(response.partial for response in asked.responses)
    assert server.aborted == 1


@pytest.mark.scenario("A6")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cancel_while_connecting_frees_the_caller(
    scope: CancelScope, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = connects(monkeypatch)
    with unaccepted() as url:
        asked = Asked(ChatCompletions("small", base_url=url.replace("http", scheme)), STREAMED)
        connecting.arrived()
        scope.cancel("enough")

        assert isinstance(asked.ended(), Cancelled)


@pytest.mark.scenario("A6")
def test_a_cancel_in_the_handshake_of_tls_hangs_up_and_frees_the_caller(
    scope: CancelScope, tmp_path: Path
) -> None:
    with ModelServer(silent("handshake"), tls=server_context()) as server:
        asked = Asked(ChatCompletions("small", base_url=server.url, ca_bundle=ca_bundle(tmp_path)), STREAMED)
        server.wait_held()
        scope.cancel("enough")
        server.wait_aborted()

        assert isinstance(asked.ended(), Cancelled)


def test_a_cancel_while_a_proxy_connects_hangs_up_and_frees_the_caller(
    scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(silent("request")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.removesuffix("/v1"))
        asked = Asked(ChatCompletions("small", base_url="https://model.invalid/v1"), STREAMED)
        proxy.wait_held()
        scope.cancel("enough")
        proxy.wait_aborted()

        assert isinstance(asked.ended(), Cancelled)


def test_a_cancel_between_the_look_up_of_a_name_and_its_end_lets_nothing_be_sent(
    scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, look_up = Gate(), socket.getaddrinfo

    def slow(*args: object) -> object:
        gate.wait()
        return look_up(*args)  # type: ignore[arg-type]  # as they came

    with ModelServer("never asked for") as server:
        monkeypatch.setattr("intermission.models.connections.socket.getaddrinfo", slow)
        asked = Asked(ChatCompletions("small", base_url=server.url), STREAMED)
        gate.arrived()
        scope.cancel("enough")
        assert asked.is_alive()  # nothing wakes a look-up
        gate.open()

        assert isinstance(asked.ended(), Cancelled)
        assert server.requests == []


@pytest.mark.scenario("A22")
def test_a_cancel_in_a_back_off_wakes_it_and_nothing_is_sent_again(
    scope: CancelScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping, sleep = Gate(), CancelScope.sleep
    sleeping.open()

    def told(scope: CancelScope, seconds: float) -> None:
        sleeping.wait()
        sleep(scope, seconds)

    monkeypatch.setattr(CancelScope, "sleep", told)
    with ModelServer(error("service", status=503), default="never asked for") as server:
        asked = Asked(ChatCompletions("small", base_url=server.url, max_retries=5), STREAMED)
        sleeping.arrived()
        scope.cancel("enough")

        assert isinstance(asked.ended(), Cancelled)
        assert len(server.requests) == 1


def test_a_call_in_a_scope_that_is_cancelled_sends_nothing(scope: CancelScope) -> None:
    scope.cancel("before")
    with ModelServer("never asked for") as server:
        with pytest.raises(Cancelled, match="before"):
            next(ChatCompletions("small", base_url=server.url).generate(STREAMED))

        assert server.requests == []


@pytest.mark.parametrize(("provider", "server"), EACH, indirect=True)
def test_a_cancel_is_no_model_error_and_shows_no_key(
    server: ModelServer, model: HttpModel, scope: CancelScope
) -> None:
    server.enqueue(stream("one", Gate()))
    responses = model.generate(STREAMED)
    next(responses)
    scope.cancel("enough")

    with pytest.raises(Cancelled) as caught:
        next(responses)
    assert KEY not in repr(vars(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize(("provider", "server"), EACH, indirect=True)
def test_what_had_arrived_before_a_cancel_is_not_shown_after_it(
    server: ModelServer, provider: Provider, model: HttpModel, scope: CancelScope
) -> None:
    server.enqueue(wire(provider.said * 100, Gate()))  # in one piece
    responses = model.generate(STREAMED)
    assert next(responses).content.text == "half"
    scope.cancel("enough")

    with pytest.raises(Cancelled):
        next(responses)


@pytest.mark.scenario("A6")
def test_more_cancels_in_a_phase_than_connections_are_kept_leave_the_next_call_its_way(
    server: ModelServer, provider: Provider, model: HttpModel
) -> None:
    for name, phase in PHASES.items():
        for _ in range(12 if name != "sending" else 2):
            before = server.aborted
            with CancelScope() as scope:
                request, reached = phase(server, provider)
                asked = Asked(model, request)
                reached(server, asked)
                assert [scope.cancel(), scope.cancel()] == [True, False]
                server.wait_aborted(before + 1)
                assert isinstance(asked.ended(), Cancelled)
    server.enqueue("here I am")

    assert list(model.generate(STREAMED))[-1].content.text == "here I am"


@pytest.mark.scenario("A5")
def test_two_hundred_cancelled_calls_leave_no_descriptor_and_the_next_call_goes_through(
    server: ModelServer, model: HttpModel, tmp_path: Path
) -> None:
    for number in range(200):
        server.enqueue(stream("one", "two", Gate()))
        with CancelScope() as scope:
            responses = model.generate(STREAMED)
            assert [next(responses).content.text, next(responses).content.text] == ["one", "two"]
            scope.cancel()
            with pytest.raises(Cancelled):
                next(responses)
        server.wait_aborted(number + 1)
    server.enqueue("here I am")

    assert list(model.generate(STREAMED))[-1].content.text == "here I am"
