"""The providers over HTTP: how the model of each is made, and what its service says."""

from collections.abc import Callable
from typing import Any, NamedTuple

from intermission.models import Anthropic, ChatCompletions, Gemini
from intermission.models.http_model import HttpModel
from intermission.testing import ModelServer
from llmock_server import LlmockServer

__all__ = ["PROVIDERS", "Provider"]


class Provider(NamedTuple):
    """One provider.

    Attributes:
        model: Makes a model, given the keywords that all have in common.
        at: Where a `ModelServer` speaks its protocol.
        at_llmock: Where `llmock` does.
        said: A piece of a stream that says "half".
        whole: An answer in one piece that says it.
        preamble: How many pieces `llmock` streams before the first that says something.
    """

    model: Callable[..., HttpModel]
    at: Callable[[ModelServer], str]
    at_llmock: Callable[[LlmockServer], str]
    said: bytes
    whole: bytes
    preamble: int

    def make(self, server: ModelServer, **settings: Any) -> HttpModel:
        """Return a model at a server."""
        return self.model("any", base_url=self.at(server), **settings)


_ANTHROPIC_HALF = b'{"type": "content_block_start", "content_block": {"type": "text", "text": "half"}}'
_GEMINI_HALF = b'{"candidates": [{"content": {"role": "model", "parts": [{"text": "half"}]}}]}'

PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        ChatCompletions,
        lambda server: server.url,
        lambda server: server.base_url,
        said=b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n',
        whole=b'{"choices": [{"message": {"content": "half"}}]}',
        preamble=1,
    ),
    "anthropic": Provider(
        Anthropic,
        lambda server: server.root_url,
        lambda server: f"{server.address}/anthropic",
        said=b"data: %b\n\n" % _ANTHROPIC_HALF,
        whole=b'{"type": "message", "content": [{"type": "text", "text": "half"}]}',
        preamble=3,
    ),
    "gemini": Provider(
        Gemini,
        lambda server: server.root_url,
        lambda server: f"{server.address}/gemini",
        said=b"data: %b\r\n\r\n" % _GEMINI_HALF,
        whole=_GEMINI_HALF,
        preamble=0,
    ),
}
