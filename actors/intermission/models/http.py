"""`HttpClient`: posts JSON over `requests`, and hands on the answer as it arrives."""

import ipaddress
import json
import os
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import urlsplit

import requests
import urllib3
from requests.utils import get_environ_proxies
from urllib3 import exceptions as urllib3_errors

from intermission.errors import ModelError, ModelErrorKind
from intermission.models.abort import AbortHandle
from intermission.models.connections import AbortableAdapter, CertificatesError, abortable_by, drain
from intermission.models.failures import Failures
from intermission.models.limits import CallLimits
from intermission.version import __version__

__all__ = ["Exchange", "HttpClient"]

_READ_SIZE = 65_536  # bytes; the most that one read takes, not what it waits for
_ERROR_BODY_SIZE = 16_384  # bytes; what is read of a refusal

_COMMON_HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "Content-Type": "application/json",
    "User-Agent": f"intermission/{__version__}",
}

# Looked up in this order.
_KINDS: tuple[tuple[ModelErrorKind, str, tuple[type[Exception], ...]], ...] = (
    (
        ModelErrorKind.CONFIGURATION,
        "cannot send a request to",
        (
            requests.exceptions.InvalidURL,
            requests.exceptions.MissingSchema,
            requests.exceptions.InvalidSchema,
            urllib3_errors.LocationValueError,
            CertificatesError,
        ),
    ),
    (
        ModelErrorKind.NETWORK,
        "no connection, or a broken one, to",
        (requests.ConnectionError, urllib3_errors.ProtocolError, urllib3_errors.SSLError, ConnectionError),
    ),
    (ModelErrorKind.SERVICE, "cannot decode the answer of", (urllib3_errors.DecodeError,)),
)


class Exchange:
    """One request that was answered with success, while the block of `HttpClient.post` runs."""

    __slots__ = ("_ended", "_handle", "_raw")

    def __init__(
        self, raw: urllib3.BaseHTTPResponse, handle: AbortHandle, ended: Callable[[Exception], ModelError]
    ) -> None:
        self._raw = raw
        self._handle = handle
        self._ended = ended

    def pieces(self) -> Iterator[bytes]:
        """Yield the body, decoded, each piece when it arrives, however the body is framed.

        Raises:
            ModelError: It broke off, or a limit passed.
            Cancelled: The call's scope is cancelled.
        """
        # Not iter_content: of a body without chunks it waits until a whole buffer is full. With a size,
        # read1 also notices a body that is shorter than its Content-Length.
        handle, read = self._handle, self._raw.read1
        while True:
            handle.wait()
            try:
                piece = read(_READ_SIZE, decode_content=True)
            except (OSError, urllib3_errors.HTTPError) as error:
                raise self._ended(error) from error
            handle.waited()
            # What had arrived before an abort can still be read, and behind it an end that looks clean: that
            # of a body without a length is the end of its connection.
            if handle.stopped:
                raise self._ended(ConnectionAbortedError("the answer was aborted"))
            if not piece:
                return
            yield piece

    def progress(self) -> None:
        """What has come says something: the gap to the next piece begins."""
        self._handle.expect("gap_timeout")

    def check(self) -> None:
        """Raise `Cancelled` if the call's scope is cancelled."""
        self._handle.check()

    def finish(self) -> None:
        """The answer is complete, whatever follows it.

        Raises:
            Cancelled: The call's scope is cancelled.
        """
        drain(self._raw)
        self._handle.check()


class HttpClient:
    """Posts JSON to one provider. Any number of threads may use one client at a time.

    Args:
        headers: Sent with every request, beside those of any request.
        failures: Makes the errors.
        ca_bundle: File or directory of the certificates to trust, `""` for `REQUESTS_CA_BUNDLE` or
            `CURL_CA_BUNDLE`, or else those of the package certifi.
    """

    def __init__(self, *, headers: Mapping[str, str], failures: Failures, ca_bundle: str = "") -> None:
        self._headers = dict(headers)
        self._failures = failures
        self._ca_bundle = ca_bundle
        self._adapter = AbortableAdapter()

    def close(self) -> None:
        """Close the idle connections. The client can be used again."""
        self._adapter.close()

    @contextmanager
    def post(
        self,
        url: str,
        payload: Mapping[str, Any],
        limits: CallLimits,
        headers: Mapping[str, str] | None = None,
    ) -> Generator[Exchange]:
        """Post `payload`, with further headers; the block gets a successful answer.

        The connection is closed when the block ends, unless its answer was read to the end.

        Raises:
            ModelError: The request could not be sent, was refused, or a limit passed.
            Cancelled: The call's scope is cancelled.
        """
        headers = {**_COMMON_HEADERS, **self._headers, **(headers or {})}
        self._check(url, headers)
        body = self._encoded(payload)
        with AbortHandle(limits) as handle:
            response = self._send(url, body, headers, handle)
            try:
                exchange = Exchange(
                    cast("urllib3.BaseHTTPResponse", response.raw),
                    handle,
                    lambda error: self._ended(url, error, handle),
                )
                if not 200 <= response.status_code < 300:
                    raise self._refused(url, response, exchange, handle)
                yield exchange
            finally:
                response.close()

    def _send(
        self, url: str, body: bytes, headers: Mapping[str, str], handle: AbortHandle
    ) -> requests.Response:
        # The adapter and no session: a session would follow redirects, keep cookies, look for credentials in
        # ~/.netrc, and is not promised to be safe for threads.
        verify = self._ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        try:
            request = requests.Request("POST", url, data=body, headers=headers).prepare()
            with abortable_by(handle):
                handle.expect("connect_timeout")
                handle.wait()
                response = self._adapter.send(
                    request, stream=True, timeout=None, verify=verify or True, proxies=_proxies(url)
                )
                handle.waited()
        except (OSError, urllib3_errors.HTTPError) as error:  # every requests error is an OSError
            _clear_frames(error)
            raise self._ended(url, error, handle) from error
        return response

    def _refused(
        self, url: str, response: requests.Response, exchange: Exchange, handle: AbortHandle
    ) -> ModelError:
        if response.is_redirect:
            said = f"a redirect to {response.headers['Location']}, which is not followed"
        else:
            said = self._beginning(exchange, handle).decode(errors="replace") or response.reason or ""
        return self._failures.refused(url, response.status_code, said, response.headers.get("Retry-After"))

    def _beginning(self, exchange: Exchange, handle: AbortHandle) -> bytes:
        """Return the beginning of a refusal's body. One that drips or stalls must not hold the call up."""
        body = bytearray()
        handle.expect("error_body")
        # Whatever breaks it, the status says more; the excerpt ends where the body did.
        with suppress(Exception):
            for piece in exchange.pieces():
                body += piece
                if len(body) >= _ERROR_BODY_SIZE:
                    break
        handle.check()
        return bytes(body)

    def _ended(self, url: str, error: Exception, handle: AbortHandle) -> ModelError:
        """Return what an error of the connection means.

        Raises:
            Cancelled: The call's scope is cancelled, and the error is what comes of that.
        """
        handle.check()
        if handle.expired is not None:
            return self._failures.timed_out(url, handle.expired, handle.seconds(handle.expired))
        for kind, what, types in _KINDS:
            if isinstance(error, types):
                return self._failures.failed(kind, f"{what} {url}", _reason(error))
        return self._failures.failed(ModelErrorKind.OTHER, f"the call to {url} failed", repr(error))

    def _encoded(self, payload: Mapping[str, Any]) -> bytes:
        try:
            return json.dumps(payload, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failures.failed(
                ModelErrorKind.VALIDATION, "the request cannot be put into JSON", str(error)
            ) from error

    def _check(self, url: str, headers: Mapping[str, str]) -> None:
        """Refuse what requests would refuse too late, or with the key in its message."""
        for name, value in headers.items():
            # The error that requests raises for such a value shows it, and this may be the key.
            if not (value.isascii() and value.isprintable() and value == value.strip()):
                raise self._failures.failed(
                    ModelErrorKind.CONFIGURATION,
                    f"the header {name} would hold characters that no header may hold; check the key",
                )
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise self._failures.failed(
                ModelErrorKind.CONFIGURATION, f"the address {url!r} is not valid", str(error)
            ) from error
        if parts.username is not None or parts.password is not None:
            raise self._failures.failed(
                ModelErrorKind.CONFIGURATION,
                f"the address of {parts.hostname} holds a user name; such credentials are not used",
            )


def _reason(error: Exception) -> str:
    """Return what happened, without what requests and urllib3 say of retries that they do not make."""
    inner: object = error.args[0] if error.args else None
    if isinstance(inner, urllib3_errors.MaxRetryError):
        inner = inner.reason
    if isinstance(inner, urllib3_errors.NewConnectionError):
        inner = inner.__cause__
    return str(inner or error)


def _clear_frames(error: BaseException) -> None:
    """Let the frames that raised an error go of what they held.

    Some of urllib3's hold the error that holds them. That circle would keep the request, with the whole
    conversation, until the next garbage collection, and make that one long.
    """
    raised: BaseException | None = error
    while raised is not None:
        traceback.clear_frames(raised.__traceback__)
        raised = raised.__context__


def _proxies(url: str) -> dict[str, str]:
    """Return the proxies that the environment names; none for this machine's own servers."""
    return {} if _is_loopback(urlsplit(url).hostname or "") else get_environ_proxies(url)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
