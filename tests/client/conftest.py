"""What tests of clients have: see `surroundings`, and a server and a client of it."""

from collections.abc import Iterator

import pytest

from intermission.client import LlmClient
from intermission.models import ChatCompletions
from intermission.testing import ModelServer
from surroundings import bare_environment, clock, scope

__all__ = ["bare_environment", "client", "clock", "model", "scope", "server"]


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
