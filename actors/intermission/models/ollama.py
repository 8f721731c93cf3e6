"""`Ollama`: models behind Ollama's own protocol, on this machine, another one, or ollama.com."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack
from urllib.parse import urlsplit

from intermission.models.base import ModelRequest, provider
from intermission.models.http_model import CallSettings, HttpModel
from intermission.models.ndjson import json_lines
from intermission.models.ollama_answer import OllamaAnswer
from intermission.models.ollama_request import RESERVED_FIELDS, ollama_request

__all__ = ["Ollama"]

_DEFAULT_PORT = 11434
_DEFAULT_HOST = f"127.0.0.1:{_DEFAULT_PORT}"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_CLOUD_HOST = "ollama.com"
_MISSING_KEY = (
    f"{_CLOUD_HOST} needs a key: set OLLAMA_API_KEY, or give Ollama an api_key. "
    "For a server of your own, set OLLAMA_HOST or base_url."
)


@provider("ollama")
class Ollama(HttpModel):
    """A `Model` at Ollama's `/api/chat`; see `HttpModel`.

    Args:
        name: The model's name, as the service knows it, such as `"qwen3:4b"`.
        base_url: The address before `/api`; `None` for `OLLAMA_HOST`, read as Ollama's own programs read it,
            or else this machine's port 11434.
        api_key: `None` for `OLLAMA_API_KEY`. Only ollama.com needs one.
        settings: Time limits, retries and more; see `CallSettings`. A model that has to be loaded first
            says nothing meanwhile: `first_token_timeout` is to leave room for that.

    Raises:
        ValueError: An option names a field that the runtime fills, a limit is not positive, or `OLLAMA_HOST`
            is no address.
    """

    _reserved = RESERVED_FIELDS

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        **settings: Unpack[CallSettings],
    ) -> None:
        url = base_url or _address(os.environ.get("OLLAMA_HOST") or _DEFAULT_HOST)
        key = api_key or os.environ.get("OLLAMA_API_KEY") or ""
        missing = _MISSING_KEY if not key and f"//{_CLOUD_HOST}" in url else None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(name, url, secrets=(key,), headers=headers, missing_key=missing, **settings)

    def _path(self, *, streaming: bool) -> str:
        return "/api/chat"

    def _payload(self, request: ModelRequest) -> Mapping[str, Any]:
        return ollama_request(self._name, request, self._options)

    def _answer(self, *, streaming: bool) -> OllamaAnswer:
        return OllamaAnswer(self._failures)

    def _chunks(self, pieces: Iterable[bytes]) -> Iterator[str]:
        return json_lines(pieces)

    def _is_no_stream(self, beginning: bytes) -> bool:
        return beginning in {b"<", b"["}  # each line of a stream is a JSON object of its own, an error too


def _address(host: str) -> str:
    """Return the address that a value of `OLLAMA_HOST` means: all of it but the host may be left out.

    A server is told by the same variable where to listen; 0.0.0.0 means this machine, then.
    """
    has_scheme = "://" in host
    try:
        parts = urlsplit(host.strip() if has_scheme else f"http://{host.strip()}")
        port = parts.port or (_DEFAULT_PORTS[parts.scheme] if has_scheme else _DEFAULT_PORT)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"OLLAMA_HOST is {host!r}, which is no address; it is like 'gpu-box', 'gpu-box:11434' or "
            "'https://models.example'"
        ) from error
    name = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
    shown = f"[{name}]" if name and ":" in name else name
    return f"{parts.scheme}://{shown}:{port}{parts.path}"
