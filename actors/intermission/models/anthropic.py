"""`Anthropic`: models behind Anthropic's Messages API, which other servers speak too."""

import os
from collections.abc import Mapping
from typing import Any, Unpack

from intermission.models.anthropic_answer import AnthropicAnswer
from intermission.models.anthropic_request import RESERVED_FIELDS, anthropic_request
from intermission.models.base import ModelRequest, provider
from intermission.models.http_model import CallSettings, HttpModel

__all__ = ["Anthropic"]

_DEFAULT_BASE_URL = "https://api.anthropic.com"
_VERSION = "2023-06-01"  # of the protocol; the only one there is since then
_MISSING_KEY = (
    f"{_DEFAULT_BASE_URL} needs a key: set ANTHROPIC_API_KEY, or give Anthropic an api_key. "
    "For another server, set ANTHROPIC_BASE_URL or base_url."
)


@provider("anthropic")
class Anthropic(HttpModel):
    """A `Model` at an endpoint of Anthropic's Messages API; see `HttpModel`.

    An answer may have 8192 tokens, and those for thinking beside them, unless `options` or the request's
    `generate_config` hold another `max_tokens`.

    Args:
        name: The model's name, as the service knows it.
        base_url: The address before `/v1/messages`; `None` for `ANTHROPIC_BASE_URL` or else Anthropic's own.
            A proxy out of the environment is not used for this machine itself.
        api_key: `None` for `ANTHROPIC_API_KEY`. A server other than Anthropic's may do without.
        settings: Time limits, retries and more; see `CallSettings`.

    Raises:
        ValueError: An option names a field that the runtime fills, or a limit is not positive.
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
        url = (base_url or os.environ.get("ANTHROPIC_BASE_URL") or _DEFAULT_BASE_URL).rstrip("/")
        key = api_key or os.environ.get("ANTHROPIC_API_KEY") or ""
        missing = _MISSING_KEY if not key and url == _DEFAULT_BASE_URL else None
        headers = {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}
        super().__init__(name, url, secrets=(key,), headers=headers, missing_key=missing, **settings)

    def _path(self, *, streaming: bool) -> str:
        return "/v1/messages"

    def _payload(self, request: ModelRequest) -> Mapping[str, Any]:
        return anthropic_request(self._name, request, self._options)

    def _answer(self, *, streaming: bool) -> AnthropicAnswer:
        return AnthropicAnswer(self._failures)
