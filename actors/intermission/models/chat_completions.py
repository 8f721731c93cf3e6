"""`ChatCompletions`: models behind the OpenAI chat-completions protocol, which most servers speak."""

import json
import logging
import os
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator, Mapping
from itertools import chain, count
from typing import Any, Protocol
from urllib.parse import unquote

from intermission.content import Content, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ModelResponse, provider
from intermission.models.chat_answer import ChatAnswer
from intermission.models.chat_request import RESERVED_FIELDS, chat_request
from intermission.models.failures import Failures
from intermission.models.limits import CallLimits, Limits
from intermission.models.retries import Retries
from intermission.models.sse import event_data

__all__ = ["ChatCompletions"]

logger = logging.getLogger(__name__)

_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_END_MARKER = "[DONE]"
_UNSTREAMED_SIZE = 65_536  # bytes; what is read of an answer that should have been a stream


class _Exchange(Protocol):
    """What is used here of `intermission.models.http.Exchange`, without its import."""

    def pieces(self) -> Iterator[bytes]: ...
    def progress(self) -> None: ...
    def check(self) -> None: ...


@provider("openai")
class ChatCompletions:
    """A `Model` at an OpenAI chat-completions endpoint. Any number of threads may use one at a time.

    A cancel of the scope that covers a call ends it at once, whatever it does but look up a name, and the
    service sees the connection close. Connections over TLS are kept for the next call, a few for each
    host; others are not.

    Args:
        name: The model's name, as the service knows it.
        base_url: The address before `/chat/completions`, so with its `/v1`; `None` for `OPENAI_BASE_URL`
            or else OpenAI's own. A proxy out of the environment is not used for this machine itself.
        api_key: `None` for `OPENAI_API_KEY`. A server other than OpenAI's may do without.
        ca_bundle: File or directory of the certificates to trust, for a server with a certificate of one's
            own. `None` for `REQUESTS_CA_BUNDLE`, or else the usual ones.
        connect_timeout: Seconds until a connection must stand, TLS included. `None` is no limit here and in
            the next four.
        first_token_timeout: Seconds from then until a streamed answer must say something.
        gap_timeout: Seconds until it must say more. Pings do not count.
        total_timeout: Seconds for a whole call that is not streamed, retries included.
        stream_total_timeout: Seconds for a streamed one.
        max_retries: How often a call may be tried again that failed before anything of it was shown.
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
        ca_bundle: str | os.PathLike[str] | None = None,
        connect_timeout: float | None = 10.0,
        first_token_timeout: float | None = 60.0,
        gap_timeout: float | None = 60.0,
        total_timeout: float | None = 120.0,
        stream_total_timeout: float | None = 300.0,
        max_retries: int = 2,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        # requests is slow to import, and whoever brings a model of their own never needs it.
        from intermission.models.http import HttpClient

        self._options = dict(options or {})
        if taken := sorted(RESERVED_FIELDS & self._options.keys()):
            raise ValueError(f"options may not hold {', '.join(taken)}: the runtime fills these itself")
        self._limits = Limits(
            connect_timeout=connect_timeout,
            first_token_timeout=first_token_timeout,
            gap_timeout=gap_timeout,
            total_timeout=total_timeout,
            stream_total_timeout=stream_total_timeout,
        )
        self._retries = Retries(max_retries)
        self._name = name
        self._base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_BASE_URL).rstrip("/")
        # A query, such as `?api-version=…`, stays behind the path.
        place, mark, query = self._base_url.partition("?")
        self._endpoint = f"{place.rstrip('/')}/chat/completions{mark}{query}"
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self._lacks_key = not key and self._base_url == _DEFAULT_BASE_URL
        self._failures = Failures(key, *_query_values(self._base_url))
        self._http = HttpClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            failures=self._failures,
            ca_bundle=os.fspath(ca_bundle or ""),
        )

    def __repr__(self) -> str:
        return f"ChatCompletions({self._name!r}, base_url={self._failures.hide(self._base_url)!r})"

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._name

    def close(self) -> None:
        """Close the connections that are kept. The model can be used again. A runner does not do it."""
        self._http.close()

    def generate(self, request: ModelRequest) -> Generator[ModelResponse, None, None]:
        """See `Model.generate`. The call begins with the first `next`; `close()` ends it early and hangs up.

        The provider's call ids are left out: `FunctionCall.id` is the position in the answer.

        Raises:
            ModelError: The call failed, the key is missing, or the stream broke off before its end marker.
            Cancelled: The scope that was current at the first `next` is cancelled.
        """
        if self._lacks_key:
            raise ModelError(
                f"{_DEFAULT_BASE_URL} needs a key: set OPENAI_API_KEY, or give ChatCompletions an api_key. "
                "For another server, set OPENAI_BASE_URL or base_url.",
                kind=ModelErrorKind.CONFIGURATION,
            )
        payload = chat_request(self._name, request, self._options)
        limits = CallLimits(self._limits, streaming=request.streaming)
        yield from self._failures.guarded(self._tried(payload, limits, streaming=request.streaming))

    def _tried(
        self, payload: Mapping[str, Any], limits: CallLimits, *, streaming: bool
    ) -> Generator[ModelResponse]:
        """Ask, and ask again as long as nothing of an answer was shown and the failure may pass."""
        for retries in count():
            shown = False
            try:
                for response in self._exchange(payload, limits, streaming=streaming):
                    shown = True
                    yield response
                return
            except ModelError as error:
                delay = None if shown else self._retries.delay(retries, error)
                if delay is None or not limits.leaves(delay):
                    raise
                kind = error.kind
            logger.info("asking %s once more in %.1f s, after an error of kind %s", self._name, delay, kind)
            limits.scope.sleep(delay)

    def _exchange(
        self, payload: Mapping[str, Any], limits: CallLimits, *, streaming: bool
    ) -> Generator[ModelResponse]:
        with self._http.post(self._endpoint, payload, limits) as exchange:
            response = (yield from self._streamed(exchange)) if streaming else self._whole(exchange)
            exchange.finish()
        # Only now: a caller may take this last response and never ask for another.
        yield response

    def _streamed(self, exchange: _Exchange) -> Generator[ModelResponse, None, ModelResponse]:
        answer = ChatAnswer(self._failures, "delta")
        body = exchange.pieces()
        first = next((piece for piece in body if piece.strip()), b"")
        pieces = chain((first,), body)
        # Not by the content type: some servers give a stream a wrong one, and an error none.
        if first.removeprefix(BOM_UTF8).lstrip()[:1] in {b"{", b"[", b"<"}:
            raise self._unstreamed(pieces)
        try:
            for data in event_data(pieces):
                if data.strip() == _END_MARKER:
                    if rest := answer.end():
                        yield _partial(rest)
                    return answer.response()
                parts, says_something = answer.add(data)
                if says_something:
                    exchange.progress()
                if parts:
                    yield _partial(parts)
                    exchange.check()  # much more may have arrived before the cancel than was looked at yet
        except UnicodeDecodeError as error:
            raise self._failures.malformed("the stream is not UTF-8", str(error)) from error
        # A body without a length ends like this when its connection breaks; half an answer is none.
        shown = "" if answer.has_begun else first.decode(errors="replace")
        raise self._failures.malformed("the stream ended without its end marker", shown)

    def _unstreamed(self, pieces: Iterator[bytes]) -> ModelError:
        """Return what is wrong with an answer that is JSON or a page, although a stream was asked for."""
        body = bytearray()
        for piece in pieces:
            body += piece
            if len(body) >= _UNSTREAMED_SIZE:
                break
        text = body.decode("utf-8-sig", "replace")
        try:
            reported = self._failures.reported_in(json.loads(text))
        except ValueError:  # no JSON after all, or too long to be read to its end
            reported = None
        return reported or self._failures.malformed("the service did not stream its answer", text)

    def _whole(self, exchange: _Exchange) -> ModelResponse:
        answer = ChatAnswer(self._failures, "message")
        answer.add(b"".join(exchange.pieces()).decode("utf-8-sig", "replace"))
        return answer.response()


def _partial(parts: tuple[Part, ...]) -> ModelResponse:
    return ModelResponse(content=Content("model", parts), partial=True)


def _query_values(url: str) -> list[str]:
    """Return the values in an address's query, as they stand and decoded: a key can be among them."""
    fields = url.partition("#")[0].partition("?")[2].split("&")
    values = [value or name for name, _, value in (field.partition("=") for field in fields)]
    return [*values, *map(unquote, values)]
