"""The providers over HTTP: how the model of each is made, and what its service says."""

from collections.abc import Callable
from typing import Any, NamedTuple

from intermission.models import Anthropic, ChatCompletions, Gemini, Ollama
from intermission.models.http_model import HttpModel
from intermission.testing import ModelServer
from llmock_server import LlmockServer

__all__ = ["PROVIDERS", "Provider"]


class Provider(NamedTuple):
    """One provider.

    Attributes:
        model: Makes a model, given the keywords that all have in common.
        path: Where a `ModelServer` speaks its protocol.
        said: A piece of a stream that says "half".
        whole: An answer in one piece that says it.
        llmock_path: Where `llmock` speaks it; `None` if it does not.
        preamble: How many pieces `llmock` streams before the first that says something.
    """

    model: Callable[..., HttpModel]
    path: str
    said: bytes
    whole: bytes
    llmock_path: str | None = None
    preamble: int = 0

    def make(self, server: ModelServer, **settings: Any) -> HttpModel:
        """Return a model at a server."""
        return self.model("any", base_url=f"{server.root_url}{self.path}", **settings)

    def make_at_llmock(self, server: LlmockServer, **settings: Any) -> HttpModel:
        """Return a model at `llmock`."""
        return self.model("any", base_url=f"{server.address}{self.llmock_path}", **settings)


_ANTHROPIC_HALF = b'{"type": "content_block_start", "content_block": {"type": "text", "text": "half"}}'
_GEMINI_HALF = b'{"candidates": [{"content": {"role": "model", "parts": [{"text": "half"}]}}]}'
_OLLAMA_HALF = b'{"message": {"role": "assistant", "content": "half"}, "done": false}'

PROVIDERS = {
    "openai": Provider(
        ChatCompletions,
        path="/v1",
        said=b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n',
        whole=b'{"choices": [{"message": {"content": "half"}}]}',
        llmock_path="/v1",
        preamble=1,
    ),
    "anthropic": Provider(
        Anthropic,
        path="",
        said=b"data: %b\n\n" % _ANTHROPIC_HALF,
        whole=b'{"type": "message", "content": [{"type": "text", "text": "half"}]}',
        llmock_path="/anthropic",
        preamble=3,
    ),
    "gemini": Provider(
        Gemini,
        path="",
        said=b"data: %b\r\n\r\n" % _GEMINI_HALF,
        whole=_GEMINI_HALF,
        llmock_path="/gemini",
    ),
    "ollama": Provider(
        Ollama,
        path="",
        said=_OLLAMA_HALF + b"\n",
        whole=_OLLAMA_HALF,
    ),
}
