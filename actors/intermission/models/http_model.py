"""`HttpModel`: what the providers over HTTP have in common, from the keywords to the last response."""

import json
import logging
import os
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain, count
from typing import Any, ClassVar, NamedTuple, Protocol, TypedDict, Unpack
from urllib.parse import unquote

from intermission.content import Content, Part
from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, ModelResponse
from intermission.models.failures import Failures
from intermission.models.limits import CallLimits, Limits
from intermission.models.retries import Retries
from intermission.models.sse import event_data

__all__ = ["Answer", "CallSettings", "HttpModel", "News", "TimeSettings"]

logger = logging.getLogger(__name__)

_UNSTREAMED_SIZE = 65_536  # bytes; what is read of an answer that should have been a stream


class TimeSettings(TypedDict, total=False):
    """How long a call may take.

    Attributes:
        connect_timeout: Seconds until a connection must stand, TLS included; 10 unless given. `None` is no
            limit here and in the next four.
        first_token_timeout: Seconds from then until a streamed answer must say something; 60.
        gap_timeout: Seconds until it must say more; 60. Pings do not count.
        total_timeout: Seconds for a whole call that is not streamed, retries included; 120.
        stream_total_timeout: Seconds for a streamed one; 300.
    """

    connect_timeout: float | None
    first_token_timeout: float | None
    gap_timeout: float | None
    total_timeout: float | None
    stream_total_timeout: float | None


class CallSettings(TimeSettings, total=False):
    """The further keywords of each provider: those of `TimeSettings`, and these.

    Attributes:
        ca_bundle: File or directory of the certificates to trust, for a server with a certificate of one's
            own. `None` for `REQUESTS_CA_BUNDLE`, or else the usual ones.
        max_retries: How often a call may be tried again that failed before anything of it was shown; 2.
        options: Further fields of each request, such as `{"temperature": 0}`.
    """

    ca_bundle: str | os.PathLike[str] | None
    max_retries: int
    options: Mapping[str, Any] | None


class News(NamedTuple):
    """What a chunk brings: parts to show, and whether it says anything at all."""

    parts: tuple[Part, ...] = ()
    says_something: bool = False


class Answer(Protocol):
    """One answer that is put together, fed with the JSON texts of a stream or with the one of a whole answer.

    Attributes:
        has_begun: Whether anything of an answer was there.
        is_complete: Whether the service has said that this is all, or nothing is missing.
        is_over: Whether nothing behind what was added belongs to the answer, so that no more is read.
    """

    @property
    def has_begun(self) -> bool: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...

    def add(self, source: str) -> News:
        """Take in a chunk, and return what is new in it.

        Raises:
            ModelError: It is not a chunk of an answer, or it reports an error.
        """
        ...

    def end(self) -> tuple[Part, ...]:
        """Take in that no chunk follows, and return the parts that this adds."""
        ...

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelError: There is none, or the arguments of a call are not a JSON object.
        """
        ...


class _Exchange(Protocol):
    """What is used here of `intermission.models.http.Exchange`, without its import."""

    def pieces(self) -> Iterator[bytes]: ...
    def progress(self) -> None: ...
    def check(self) -> None: ...
    def finish(self) -> None: ...


class HttpModel(ABC):
    """A `Model` behind a service that is asked with JSON. Any number of threads may use one at a time.

    A cancel of the scope that covers a call ends it at once, whatever it does but look up a name, and the
    service sees the connection close. Connections over TLS are kept for the next call, a few for each host;
    others are not.

    Args:
        name: The model's name, as the service knows it.
        base_url: Where the service is.
        secrets: The key and its like: no message shows them.
        headers: Sent with each request.
        missing_key: What to tell whoever has given no key; `None` if there is one, or none is needed.
        ca_bundle: See `CallSettings`.
        max_retries: See `CallSettings`.
        options: See `CallSettings`.
        times: See `TimeSettings`.

    Raises:
        TypeError: There is no such keyword; it says where fields of the request go.
        ValueError: An option names a field that the runtime fills, or a limit is not positive.
    """

    # The fields that the runtime fills; further options may not name them.
    _reserved: ClassVar[frozenset[str]]

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        secrets: Iterable[str],
        headers: Mapping[str, str],
        missing_key: str | None,
        ca_bundle: str | os.PathLike[str] | None = None,
        max_retries: int = 2,
        options: Mapping[str, Any] | None = None,
        **times: Unpack[TimeSettings],
    ) -> None:
        # requests is slow to import, and whoever brings a model of their own never needs it.
        from intermission.models.http import HttpClient

        self._options = dict(options or {})
        if taken := sorted(self._reserved & self._options.keys()):
            raise ValueError(f"options may not hold {', '.join(taken)}: the runtime fills these itself")
        if unknown := sorted(times.keys() - TimeSettings.__annotations__.keys()):
            raise TypeError(
                f"{type(self).__name__} has no keyword {', '.join(unknown)}. Fields of the request go into "
                f"options={{…}}; the time limits are {', '.join(TimeSettings.__annotations__)}"
            )
        self._limits = Limits(**times)
        self._retries = Retries(max_retries)
        self._name = name
        self._missing_key = missing_key
        self._base_url = base_url.rstrip("/")
        self._failures = Failures(*secrets, *_query_values(base_url))
        certificates = os.fspath(ca_bundle or "")
        self._http = HttpClient(headers=headers, failures=self._failures, ca_bundle=certificates)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, base_url={self._failures.hide(self._base_url)!r})"

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
            ModelError: The call failed, the key is missing, or the stream broke off before its end.
            Cancelled: The scope that was current at the first `next` is cancelled.
        """
        if self._missing_key is not None:
            raise ModelError(self._missing_key, kind=ModelErrorKind.CONFIGURATION)
        payload = self._payload(request)
        limits = CallLimits(self._limits, streaming=request.streaming)
        yield from self._failures.guarded(self._tried(payload, limits, streaming=request.streaming))

    def _headers(self) -> Mapping[str, str]:
        """Return further headers, asked for before each request, and once more when one gets status 401.

        Raises:
            ModelError: There are none to be had.
        """
        return {}

    @abstractmethod
    def _path(self, *, streaming: bool) -> str:
        """Return what follows the base address, with its query if it has one."""

    @abstractmethod
    def _payload(self, request: ModelRequest) -> Mapping[str, Any]:
        """Return the body of the request.

        Raises:
            ModelError: The conversation or the configuration holds what this wire cannot carry.
        """

    @abstractmethod
    def _answer(self, *, streaming: bool) -> Answer:
        """Return an answer that nothing was added to."""

    def _chunks(self, pieces: Iterable[bytes]) -> Iterator[str]:
        """Yield the JSON texts of a streamed body."""
        return event_data(pieces)

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
        with ExitStack() as stack:
            exchange = self._sent(payload, limits, stack, streaming=streaming)
            response = (yield from self._streamed(exchange)) if streaming else self._whole(exchange)
            exchange.finish()
        # Only now: a caller may take this last response and never ask for another.
        yield response

    def _sent(
        self, payload: Mapping[str, Any], limits: CallLimits, stack: ExitStack, *, streaming: bool
    ) -> _Exchange:
        """Send a request; return its exchange, which the stack ends."""
        url = _joined(self._base_url, self._path(streaming=streaming))
        headers = self._headers()
        try:
            return stack.enter_context(self._http.post(url, payload, limits, headers))
        except ModelError as error:
            # A token may have come to its end. The same one once more would be refused once more.
            if error.status != 401 or (renewed := self._headers()) == headers:
                raise
        return stack.enter_context(self._http.post(url, payload, limits, renewed))

    def _streamed(self, exchange: _Exchange) -> Generator[ModelResponse, None, ModelResponse]:
        answer = self._answer(streaming=True)
        body = exchange.pieces()
        first = next((piece for piece in body if piece.strip()), b"")
        pieces = chain((first,), body)
        if self._is_no_stream(first.removeprefix(BOM_UTF8).lstrip()[:1]):
            raise self._unstreamed(pieces)
        try:
            for source in self._chunks(pieces):
                parts, says_something = answer.add(source)
                if says_something:
                    exchange.progress()
                if parts:
                    yield _partial(parts)
                    exchange.check()  # much more may have arrived before the cancel than was looked at yet
                if answer.is_over:
                    break
        except UnicodeDecodeError as error:
            raise self._failures.malformed("the stream is not UTF-8", str(error)) from error
        if not answer.is_complete:
            # A body without a length ends like this when its connection breaks; half an answer is none.
            shown = "" if answer.has_begun else first.decode(errors="replace")
            raise self._failures.malformed("the stream ended without its end marker", shown)
        if rest := answer.end():
            yield _partial(rest)
        return answer.response()

    def _is_no_stream(self, beginning: bytes) -> bool:
        """Return whether a body that begins so is JSON or a page, although a stream was asked for.

        Not by the content type: some servers give a stream a wrong one, and an error none.
        """
        return beginning in {b"{", b"[", b"<"}

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
        answer = self._answer(streaming=False)
        answer.add(b"".join(exchange.pieces()).decode("utf-8-sig", "replace"))
        return answer.response()


def _partial(parts: tuple[Part, ...]) -> ModelResponse:
    return ModelResponse(content=Content("model", parts), partial=True)


def _joined(base_url: str, path: str) -> str:
    """Return an address. A query in its base, such as `?api-version=…`, stays behind the path."""
    place, _, query = base_url.partition("?")
    path, _, more = path.partition("?")
    queries = "&".join(filter(None, (more, query)))
    return f"{place.rstrip('/')}{path}{'?' if queries else ''}{queries}"


def _query_values(url: str) -> list[str]:
    """Return the values in an address's query, as they stand and decoded: a key can be among them."""
    fields = url.partition("#")[0].partition("?")[2].split("&")
    values = [value or name for name, _, value in (field.partition("=") for field in fields)]
    return [*values, *map(unquote, values)]
