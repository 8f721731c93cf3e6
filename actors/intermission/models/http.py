"""`HttpClient`: the one place that uses `requests`. Posts JSON, hands on the answer as it arrives."""

import ipaddress
import json
import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3 import exceptions as urllib3_errors

from intermission.errors import ModelError, ModelErrorKind
from intermission.models.failures import Failures, kind_of_status, seconds_to_wait

__all__ = ["HttpClient"]

_READ_SIZE = 65_536  # bytes; the most that one read takes, not what it waits for
_ERROR_BODY_SIZE = 16_384  # bytes; what is read of a refusal

# Looked up in this order: a ConnectTimeout, for one, is a ConnectionError too.
_KINDS: tuple[tuple[ModelErrorKind, str, tuple[type[Exception], ...]], ...] = (
    (ModelErrorKind.TIMEOUT, "no answer in time from", (requests.Timeout, urllib3_errors.TimeoutError)),
    (
        ModelErrorKind.CONFIGURATION,
        "cannot send a request to",
        (
            requests.exceptions.InvalidURL,
            requests.exceptions.MissingSchema,
            requests.exceptions.InvalidSchema,
            urllib3_errors.LocationValueError,
        ),
    ),
    (
        ModelErrorKind.NETWORK,
        "no connection, or a broken one, to",
        (requests.ConnectionError, urllib3_errors.ProtocolError, urllib3_errors.SSLError),
    ),
    (ModelErrorKind.SERVICE, "cannot decode the answer of", (urllib3_errors.DecodeError,)),
)


class HttpClient:
    """Posts JSON to one provider. Any number of threads may use one client at a time.

    Nothing is kept between calls, so there is nothing to close.

    Args:
        headers: Sent with every request, beside the content type.
        failures: Makes the errors.
        connect_timeout: Seconds until the connection must stand.
        read_timeout: Seconds that may pass without a byte, before the answer and within it.

    Raises:
        ValueError: A limit is not a positive number.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        failures: Failures,
        connect_timeout: float,
        read_timeout: float,
    ) -> None:
        for name, seconds in (("connect_timeout", connect_timeout), ("read_timeout", read_timeout)):
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name} must be a positive number of seconds, not {seconds}")
        self._headers = dict(headers)
        self._failures = failures
        self._timeouts = (connect_timeout, read_timeout)

    @contextmanager
    def post(self, url: str, payload: Mapping[str, Any]) -> Generator[Iterator[bytes]]:
        """Post `payload`; the block gets the body of a successful answer, piece by piece, decoded.

        A piece is handed on when it arrives, however the body is framed. The connection is closed when
        the block ends, read to the end or not.

        Raises:
            ModelError: The request could not be sent, was refused, or the answer broke off; in the block
                too, out of the iterator.
        """
        self._check(url)
        body = self._encoded(payload)
        # A session for each call: requests does not promise that threads can share one, and one a thread
        # would keep idle sockets for as long as that thread lives. The price is a connection for each call.
        with _Session() as session:
            session.mount("http://", _ClosingAdapter())
            session.mount("https://", _ClosingAdapter())
            try:
                response = session.post(
                    url,
                    data=body,
                    headers=self._headers | {"Content-Type": "application/json"},
                    timeout=self._timeouts,
                    stream=True,
                    allow_redirects=False,
                    auth=_no_other_authentication,
                    proxies=_proxies(url),
                )
            except (OSError, urllib3_errors.HTTPError) as error:  # every requests error is an OSError
                raise self._broken(url, error) from error
            with response:
                pieces = self._pieces(url, cast("urllib3.BaseHTTPResponse", response.raw))
                if not 200 <= response.status_code < 300:
                    raise self._refused(url, response, pieces)
                yield pieces

    def _pieces(self, url: str, raw: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        # Not iter_content: of a body without chunks it waits until a whole buffer is full. With a size,
        # read1 also notices a body that is shorter than its Content-Length.
        while True:
            try:
                piece = raw.read1(_READ_SIZE, decode_content=True)
            except (OSError, urllib3_errors.HTTPError) as error:
                raise self._broken(url, error) from error
            if not piece:
                return
            yield piece

    def _refused(self, url: str, response: requests.Response, pieces: Iterator[bytes]) -> ModelError:
        status = response.status_code
        if response.is_redirect:
            detail = f"a redirect to {response.headers['Location']}, which is not followed"
        else:
            detail = self._beginning(pieces).decode(errors="replace") or response.reason or ""
        return self._failures.failed(
            kind_of_status(status),
            f"{url} answered {status}",
            detail,
            status=status,
            retry_after=seconds_to_wait(response.headers.get("Retry-After")),
        )

    def _beginning(self, pieces: Iterator[bytes]) -> bytes:
        """Return the beginning of a refusal's body. A body that drips must not hold the call up."""
        body = bytearray()
        end = time.monotonic() + self._timeouts[1]
        # Whatever breaks it, the status says more; the excerpt ends where the body did.
        with suppress(Exception):
            for piece in pieces:
                body += piece
                if len(body) >= _ERROR_BODY_SIZE or time.monotonic() >= end:
                    break
        return bytes(body)

    def _broken(self, url: str, error: Exception) -> ModelError:
        for kind, what, types in _KINDS:
            if isinstance(error, types):
                return self._failures.failed(kind, f"{what} {url}", str(error))
        return self._failures.failed(ModelErrorKind.OTHER, f"the call to {url} failed", repr(error))

    def _encoded(self, payload: Mapping[str, Any]) -> bytes:
        try:
            return json.dumps(payload, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failures.failed(
                ModelErrorKind.VALIDATION, "the request cannot be put into JSON", str(error)
            ) from error

    def _check(self, url: str) -> None:
        """Refuse what requests would refuse too late, or with the key in its message."""
        for name, value in self._headers.items():
            # The error that requests raises for such a value shows it, and this may be the key.
            if not (value.isascii() and value.isprintable() and value == value.strip()):
                raise self._failures.failed(
                    ModelErrorKind.CONFIGURATION,
                    f"the header {name} would hold characters that no header may hold; check the API key",
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


class _Session(requests.Session):
    """Takes no answer for a redirect.

    Even if it may not follow one, requests would read all of its body and parse where it leads.
    """

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        return None


class _ClosingAdapter(HTTPAdapter):
    """Closes idle connections with its session.

    urllib3 would only drop its reference to them. An error keeps the frames that raised it, and so the
    response and its pool, and an open socket for as long as anybody keeps the error.
    """

    def close(self) -> None:
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            for key in manager.pools.keys():  # noqa: SIM118  # this mapping refuses to be iterated itself
                if pool := manager.pools.get(key):
                    pool.close()
        super().close()


def _no_other_authentication(request: requests.PreparedRequest) -> requests.PreparedRequest:
    # Without an `auth` of ours, requests would put what ~/.netrc holds in place of the Authorization header.
    return request


def _proxies(url: str) -> dict[str, str]:
    """Keep a proxy that the environment names away from this machine's own servers.

    Not by `trust_env = False`: that would drop the environment's certificates as well.
    """
    host = urlsplit(url).hostname or ""
    return {"no_proxy": host} if _is_loopback(host) else {}


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
