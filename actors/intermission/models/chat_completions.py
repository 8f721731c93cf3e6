"""`ChatCompletions`: models behind the OpenAI chat-completions protocol, which most servers speak."""

import json
import os
from collections.abc import Generator, Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import unquote

from intermission.content import Content
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ModelResponse
from intermission.models.chat_answer import ChatAnswer
from intermission.models.chat_request import RESERVED_FIELDS, chat_request
from intermission.models.failures import Failures
from intermission.models.sse import event_data

__all__ = ["ChatCompletions"]

_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_END_MARKER = "[DONE]"
_UNSTREAMED_SIZE = 65_536  # bytes; what is read of an answer that should have been a stream


class ChatCompletions:
    """A `Model` at an OpenAI chat-completions endpoint. Any number of threads may use one at a time.

    No connection outlives its call, so there is nothing to close.

    Args:
        name: The model's name, as the service knows it.
        base_url: The address before `/chat/completions`, so with its `/v1`; `None` for `OPENAI_BASE_URL`
            or else OpenAI's own. A proxy out of the environment is not used for this machine itself.
        api_key: `None` for `OPENAI_API_KEY`. A server other than OpenAI's may do without.
        connect_timeout: Seconds until a connection must stand.
        read_timeout: Seconds that may pass without a byte, before the answer and within it.
        options: Further fields of each request, such as `{"temperature": 0}`.

    Raises:
        ValueError: An option names a field that the runtime fills, or a limit is not positive.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        # requests is slow to import, and whoever brings a model of their own never needs it.
        from intermission.models.http import HttpClient

        self._options = dict(options or {})
        if taken := sorted(RESERVED_FIELDS & self._options.keys()):
            raise ValueError(f"options may not hold {', '.join(taken)}: the runtime fills these itself")
        self._name = name
        self._base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_BASE_URL).rstrip("/")
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self._lacks_key = not key and self._base_url == _DEFAULT_BASE_URL
        self._failures = Failures(key, *_query_values(self._base_url))
        self._http = HttpClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            failures=self._failures,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
        )

    def __repr__(self) -> str:
        return f"ChatCompletions({self._name!r}, base_url={self._failures.hide(self._base_url)!r})"

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._name

    def generate(self, request: ModelRequest) -> Generator[ModelResponse, None, None]:
        """See `Model.generate`. The call begins with the first `next`; `close()` ends it early and hangs up.

        The provider's call ids are left out: each `FunctionCall.id` is `""`.

        Raises:
            ModelError: The call failed, the key is missing, or the stream broke off before its end marker.
        """
        if self._lacks_key:
            raise ModelError(
                f"{_DEFAULT_BASE_URL} needs a key: set OPENAI_API_KEY, or give ChatCompletions an api_key. "
                "For another server, set OPENAI_BASE_URL or base_url.",
                kind=ModelErrorKind.CONFIGURATION,
            )
        payload = chat_request(self._name, request, self._options)
        yield from self._failures.guarded(self._exchange(payload, streaming=request.streaming))

    def _exchange(self, payload: Mapping[str, Any], *, streaming: bool) -> Generator[ModelResponse]:
        with self._http.post(f"{self._base_url}/chat/completions", payload) as body:
            response = (yield from self._streamed(body)) if streaming else self._whole(body)
        # Only now: a caller may take this last response and never ask for another.
        yield response

    def _streamed(self, body: Iterator[bytes]) -> Generator[ModelResponse, None, ModelResponse]:
        answer = ChatAnswer(self._failures, "delta")
        first = next((piece for piece in body if piece.strip(b"\r\n")), b"")
        pieces = chain((first,), body)
        # Not by the content type: some servers give a stream a wrong one, and an error none.
        if first.lstrip()[:1] in {b"{", b"["}:
            raise self._unstreamed(pieces)
        try:
            for data in event_data(pieces):
                if data.strip() == _END_MARKER:
                    if rest := answer.end():
                        yield ModelResponse(content=Content.model(rest), partial=True)
                    return answer.response()
                if delta := answer.add(data):
                    yield ModelResponse(content=Content.model(delta), partial=True)
        except UnicodeDecodeError as error:
            raise self._failures.malformed("the stream is not UTF-8", str(error)) from error
        # A body without a length ends like this when its connection breaks; half an answer is none.
        raise self._failures.malformed("the stream ended without its end marker", "")

    def _unstreamed(self, pieces: Iterator[bytes]) -> ModelError:
        """Return what is wrong with an answer that is plain JSON although a stream was asked for."""
        body = bytearray()
        for piece in pieces:
            body += piece
            if len(body) >= _UNSTREAMED_SIZE:
                break
        text = body.decode(errors="replace")
        try:
            reported = self._failures.reported_in(json.loads(text))
        except ValueError:  # no JSON after all, or too long to be read to its end
            reported = None
        return reported or self._failures.malformed("the service did not stream its answer", text)

    def _whole(self, body: Iterator[bytes]) -> ModelResponse:
        answer = ChatAnswer(self._failures, "message")
        answer.add(b"".join(body).decode(errors="replace"))
        return answer.response()


def _query_values(url: str) -> list[str]:
    """Return the values in an address's query, as they stand and decoded: a key can be among them."""
    fields = url.partition("#")[0].partition("?")[2].split("&")
    values = [value or name for name, _, value in (field.partition("=") for field in fields)]
    return [*values, *map(unquote, values)]
