"""What tests of clients have: a server and a client of it, and a scope on a manual clock."""

from collections.abc import Iterator

import pytest

from intermission import CancelScope
from intermission.client import LlmClient
from intermission.models import ChatCompletions
from intermission.testing import ManualClock, ModelServer
from scopes import hosted


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def surroundings(clock: ManualClock) -> Iterator[CancelScope]:
    """Cover the test by a scope, so that time limits follow the manual clock and none passes by itself."""
    with hosted(clock) as host, CancelScope.child_of(None, host=host) as scope:
        yield scope


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model(server: ModelServer) -> ChatCompletions:
    return ChatCompletions("small", base_url=server.url)


@pytest.fixture
def client(model: ChatCompletions) -> Iterator[LlmClient]:
    with LlmClient(model) as client:
        yield client
