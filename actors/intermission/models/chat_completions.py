"""`ChatCompletions`: models behind the OpenAI chat-completions protocol, which most servers speak."""

import os
from collections.abc import Mapping
from typing import Any, Unpack

from intermission.models.base import ModelRequest, provider
from intermission.models.chat_answer import ChatAnswer
from intermission.models.chat_request import RESERVED_FIELDS, chat_request
from intermission.models.http_model import CallSettings, HttpModel

__all__ = ["ChatCompletions"]

_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_MISSING_KEY = (
    f"{_DEFAULT_BASE_URL} needs a key: set OPENAI_API_KEY, or give ChatCompletions an api_key. "
    "For another server, set OPENAI_BASE_URL or base_url."
)


@provider("openai")
class ChatCompletions(HttpModel):
    """A `Model` at an OpenAI chat-completions endpoint; see `HttpModel`.

    Args:
        name: The model's name, as the service knows it.
        base_url: The address before `/chat/completions`, so with its `/v1`; `None` for `OPENAI_BASE_URL`
            or else OpenAI's own. A proxy out of the environment is not used for this machine itself.
        api_key: `None` for `OPENAI_API_KEY`. A server other than OpenAI's may do without.
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
        url = (base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_BASE_URL).rstrip("/")
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        missing = _MISSING_KEY if not key and url == _DEFAULT_BASE_URL else None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(name, url, secrets=(key,), headers=headers, missing_key=missing, **settings)

    def _path(self, *, streaming: bool) -> str:
        return "/chat/completions"

    def _payload(self, request: ModelRequest) -> Mapping[str, Any]:
        return chat_request(self._name, request, self._options)

    def _answer(self, *, streaming: bool) -> ChatAnswer:
        return ChatAnswer(self._failures, "delta" if streaming else "message")
