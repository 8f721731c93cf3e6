"""Gemini on Vertex AI: other addresses, and tokens that end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asking import Asked
from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.kernel.scope import Cancelled, CancelScope
from intermission.models import Gemini, ModelRequest, Vertex
from intermission.testing import Gate, ModelServer, error, stream

STREAMED = ModelRequest(contents=(Content.user("hello"),), streaming=True)
WHOLE = ModelRequest(contents=(Content.user("hello"),))
PLACE = "/v1/projects/acme/locations/europe-west4"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def model(server: ModelServer, token: str | Callable[[], str], **settings: Any) -> Gemini:
    vertex = Vertex("acme", "europe-west4", token)
    settings.setdefault("max_retries", 0)
    return Gemini("gemini-2.5-flash", base_url=server.root_url, vertex=vertex, **settings)


def failure(model: Gemini, request: ModelRequest = WHOLE) -> ModelError:
    with pytest.raises(ModelError) as caught:
        list(model.generate(request))
    return caught.value


def refused() -> Any:
    return error("authentication", "the token ya29.number-one-0123 is over", status=401)


def tokens(*given: str) -> Callable[[], str]:
    left = iter(given)
    return lambda: next(left)


def sent(server: ModelServer) -> list[str]:
    return [headers["authorization"] for headers in server.headers]


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_each_location_has_its_address(location: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_BASE_URL", "https://elsewhere.invalid")  # must not get the token

    assert f"base_url='{address}'" in repr(Gemini("any", vertex=Vertex("acme", location, "ya29")))


def test_a_model_is_asked_at_its_place_with_a_token(server: ModelServer) -> None:
    server.enqueue("yes")
    server.enqueue("yes")
    for request in (WHOLE, STREAMED):
        assert list(model(server, "ya29").generate(request))[-1].content.text == "yes"

    path = f"{PLACE}/publishers/google/models/gemini-2.5-flash"
    assert server.paths == [f"{path}:generateContent", f"{path}:streamGenerateContent?alt=sse"]
    assert sent(server) == ["Bearer ya29", "Bearer ya29"]
    assert "x-goog-api-key" not in server.headers[0]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("endpoints/42", f"{PLACE}/endpoints/42"),
        ("projects/p/locations/l/endpoints/42", "/v1/projects/p/locations/l/endpoints/42"),
    ],
)
def test_a_name_that_is_a_path_says_where_the_model_is(server: ModelServer, name: str, path: str) -> None:
    vertex = Vertex("acme", "europe-west4", "ya29")
    failed = failure(Gemini(name, base_url=server.root_url, vertex=vertex, max_retries=0))

    assert failed.status == 404
    assert f"{server.root_url}{path}:generateContent" in str(failed)


def test_a_key_of_the_environment_is_not_sent(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza")
    server.enqueue("yes")
    list(model(server, "ya29").generate(WHOLE))

    assert "x-goog-api-key" not in server.headers[0]


def test_the_token_is_asked_for_at_each_call_and_each_retry(server: ModelServer, slept: list[float]) -> None:
    server.enqueue("yes")
    server.enqueue(error("service", status=503, retry_after=0.01))
    server.enqueue("yes")
    gemini = model(server, tokens("ya29.1", "ya29.2", "ya29.3"), max_retries=1)
    for _ in range(2):
        list(gemini.generate(WHOLE))

    assert sent(server) == ["Bearer ya29.1", "Bearer ya29.2", "Bearer ya29.3"]
    assert len(slept) == 1


@pytest.mark.parametrize("request_", [STREAMED, WHOLE], ids=["streamed", "whole"])
def test_a_token_that_is_refused_is_renewed_once(server: ModelServer, request_: ModelRequest) -> None:
    server.enqueue(refused())
    server.enqueue("yes")
    gemini = model(server, tokens("ya29.1", "ya29.2"))

    assert list(gemini.generate(request_))[-1].content.text == "yes"
    assert sent(server) == ["Bearer ya29.1", "Bearer ya29.2"]


def test_a_second_token_that_is_refused_is_the_end_and_neither_is_shown(server: ModelServer) -> None:
    for _ in range(2):
        server.enqueue(refused())
    failed = failure(model(server, tokens("ya29.number-one-0123", "ya29.number-two-4567"), max_retries=5))

    assert (failed.kind, failed.status) == (ModelErrorKind.AUTHENTICATION, 401)
    assert "the token [key] is over" in str(failed)
    assert (failed.__cause__, failed.__context__) == (None, None)
    assert len(server.requests) == 2


@pytest.mark.parametrize("token", ["ya29", lambda: "ya29"], ids=["str", "function"])
def test_the_same_token_is_not_sent_again_when_it_was_refused(
    server: ModelServer, token: str | Callable[[], str]
) -> None:
    server.enqueue(refused())

    assert failure(model(server, token)).status == 401
    assert len(server.requests) == 1


def test_a_token_that_cannot_be_had_is_an_error_of_authentication_with_its_cause(server: ModelServer) -> None:
    def broken() -> str:
        raise OSError("no metadata server")

    failed = failure(model(server, broken, max_retries=5))

    assert failed.kind is ModelErrorKind.AUTHENTICATION
    assert "no metadata server" in str(failed)
    assert isinstance(failed.__cause__, OSError)
    assert server.connections == 0


@pytest.mark.parametrize("token", ["", None, 7])
def test_a_function_that_returns_no_token_is_an_error_of_authentication(
    server: ModelServer, token: Any
) -> None:
    failed = failure(model(server, lambda: token))

    assert failed.kind is ModelErrorKind.AUTHENTICATION
    assert type(token).__name__ in str(failed)


def test_a_token_that_no_header_can_hold_is_not_shown(server: ModelServer) -> None:
    failed = failure(model(server, "ya29.number-one-0123\n"))

    assert failed.kind is ModelErrorKind.CONFIGURATION
    assert "Authorization" in str(failed)
    assert "ya29" not in str(failed)


def test_a_cancel_while_a_token_is_fetched_lets_nothing_be_sent(
    server: ModelServer, scope: CancelScope
) -> None:
    gate = Gate()

    def slow() -> str:
        gate.wait()
        return "ya29"

    asked = Asked(model(server, slow), STREAMED)
    gate.arrived()
    scope.cancel("enough")
    gate.open()

    assert isinstance(asked.ended(), Cancelled)
    assert server.requests == []


def test_a_cancel_of_a_call_with_a_token_hangs_up(server: ModelServer, scope: CancelScope) -> None:
    server.enqueue(stream("one", Gate()))
    asked = Asked(model(server, "ya29"), STREAMED)
    asked.first()
    scope.cancel("enough")
    server.wait_aborted()

    assert isinstance(asked.ended(), Cancelled)


def test_the_tokens_of_calls_that_run_at_the_same_time_are_all_hidden(server: ModelServer) -> None:
    secrets = [f"ya29.secret-number-{number}" for number in range(6)]
    left = [*secrets, secrets[0]]
    gemini = model(server, left.pop)
    for _ in secrets:
        server.enqueue("yes")
    asked = [Asked(gemini, WHOLE) for _ in secrets]
    assert [one.ended() for one in asked] == [None] * len(secrets)
    server.enqueue(error("authentication", " ".join(secrets), status=403))

    assert "ya29" not in str(failure(gemini))


def test_vertex_shows_no_token_and_takes_no_key() -> None:
    vertex = Vertex("acme", "global", "ya29.very-secret")

    assert repr(vertex) == "Vertex(project='acme', location='global')"
    with pytest.raises(ValueError, match="not both"):
        Gemini("any", api_key="AIza", vertex=vertex)
    for project, location in (("", "global"), ("acme", "")):
        with pytest.raises(ValueError, match="needs a project and a location"):
            Vertex(project, location, "ya29")
