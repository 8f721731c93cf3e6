"""What tests of models have: an environment without keys and proxies, and a scope on a manual clock."""

from collections.abc import Iterator

import pytest

from intermission.kernel.scope import CancelScope
from intermission.testing import ManualClock
from scopes import hosted


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_HOST")
    for name in (*keys, "NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def scope(clock: ManualClock) -> Iterator[CancelScope]:
    """Cover the test by a scope, so that time limits follow the manual clock and none passes by itself."""
    with hosted(clock) as host, CancelScope.child_of(None, host=host) as scope:
        yield scope
