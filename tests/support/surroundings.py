"""Fixtures for tests that ask models: no keys, no proxies, and a scope on a manual clock."""

from collections.abc import Iterator

import pytest

from intermission.kernel.scope import CancelScope
from intermission.testing import ManualClock
from scopes import hosted

__all__ = ["bare_environment", "clock", "scope"]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    providers = ("OPENAI", "ANTHROPIC", "GEMINI", "OLLAMA")
    keys = (f"{name}_{what}" for name in providers for what in ("API_KEY", "BASE_URL"))
    for name in (*keys, "GOOGLE_API_KEY", "OLLAMA_HOST", "NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
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
