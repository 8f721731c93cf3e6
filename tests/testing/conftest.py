import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from chat_client import connect
from intermission.testing import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(strict=False) as server:
        yield server


@pytest.fixture
def connection(server: ModelServer) -> Iterator[http.client.HTTPConnection]:
    with closing(connect(server)) as connection:
        yield connection
