"""`AbortableAdapter`: the connections of `requests`, each of which the `AbortHandle` of its request can shut.

A connection hands its socket to the handle before it connects, so that no phase is out of reach but the
look-up of the name. It is taken from the handle before it goes back to the pool, where the next request may
be somebody else's.
"""

import contextvars
import errno
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationParseError, NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family
from urllib3.util.ssl_ import create_urllib3_context
from urllib3.util.wait import wait_for_write

from intermission.models.abort import AbortHandle

__all__ = ["AbortableAdapter", "CertificatesError", "abortable_by", "drain"]

_IDLE = 10  # connections to one host that are kept, at most
_DRAIN_SIZE = 8_192  # bytes; what is read behind an answer, to use its connection again
_DRAIN_TIME = 0.02  # seconds for that

_handle: contextvars.ContextVar[AbortHandle | None] = contextvars.ContextVar(
    "intermission_abort_handle", default=None
)


class CertificatesError(OSError):
    """The certificates to trust cannot be read."""


@contextmanager
def abortable_by(handle: AbortHandle) -> Generator[None]:
    """Let `handle` reach the connection that the code inside uses."""
    token = _handle.set(handle)
    try:
        yield
    finally:
        _handle.reset(token)


class _Connection(HTTPConnection):
    """A connection whose socket is in reach of the handle of the request that it serves."""

    handle: AbortHandle | None = None

    def connect(self) -> None:
        self.handle = _handle.get()
        super().connect()
        if self.handle is not None:
            self.handle.waited()
            self.handle.expect("first_token_timeout")
            self.handle.wait()

    def request(self, *args: Any, **kwargs: Any) -> None:
        handle = _handle.get()
        if self.sock is not None and handle is not None and self.handle is not handle:  # it was idle
            self.handle = handle
            handle.attach(self.sock)
            handle.expect("first_token_timeout")
            handle.wait()
        super().request(*args, **kwargs)
        if handle is not None:
            handle.sent()

    def _new_conn(self) -> socket.socket:
        # urllib3's own makes the socket and connects it in one step.
        try:
            addresses = socket.getaddrinfo(
                self._dns_host, self.port, allowed_gai_family(), socket.SOCK_STREAM
            )
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError:
            raise LocationParseError(f"'{self.host}', label empty or too long") from None
        failures: list[OSError] = []
        for family, kind, protocol, _, address in addresses:
            try:
                connected = self._connected(socket.socket(family, kind, protocol), address)
            except OSError as error:
                failures.append(error)
                if self.handle is not None and self.handle.stopped:
                    break
            else:
                sys.audit("http.client.connect", self, self.host, self.port)
                return connected
        cause = failures.pop() if failures else OSError("the name has no address")
        failures.clear()  # an error refers to this frame, and so would the frame to the error
        try:
            raise NewConnectionError(self, f"Failed to establish a new connection: {cause}") from cause
        finally:
            del cause

    def _connected(self, sock: socket.socket, address: Any) -> socket.socket:
        try:
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            sock.setblocking(False)
            if self.handle is not None:
                self.handle.attach(sock)
            code = sock.connect_ex(address)
            # An abort reaches a socket that connects; before, it only says so. Hence no connect that blocks.
            if self.handle is not None:
                self.handle.check_stopped()
            if code == errno.EINPROGRESS:
                wait_for_write(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            sock.settimeout(self.timeout)
        except BaseException:
            sock.close()
            raise
        return sock


class _TlsConnection(_Connection, HTTPSConnection):
    pass


def drain(answer: BaseHTTPResponse) -> None:
    """Read the little that is left behind an answer, if its connection can then be kept."""
    connection = answer.connection
    if not isinstance(connection, _TlsConnection) or connection.sock is None:
        return
    end, left = time.monotonic() + _DRAIN_TIME, _DRAIN_SIZE
    with suppress(OSError, HTTPError):  # then it is not kept
        while left > 0 and (seconds := end - time.monotonic()) > 0:
            connection.sock.settimeout(seconds)
            piece = answer.read1(left, decode_content=True)
            if not piece:
                return
            left -= len(piece)


class _Pool(HTTPConnectionPool):
    """Keeps no connection: to connect again costs next to nothing, and nobody has to close it."""

    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]  # as urllib3 does itself

    def _put_conn(self, conn: Any) -> None:
        if conn is not None:
            _let_go(conn)
            conn.close()
        _put(self, super()._put_conn, conn)


class _TlsPool(HTTPSConnectionPool):
    """Keeps a few idle connections, since a handshake costs several round trips and much work."""

    ConnectionCls = _TlsConnection  # pyright: ignore[reportAssignmentType]  # as above

    def _put_conn(self, conn: Any) -> None:
        if conn is not None and not _let_go(conn):
            conn.close()
        _put(self, super()._put_conn, conn)


def _let_go(connection: _Connection) -> bool:
    """Take a connection from its handle; return whether nobody has aborted it."""
    handle, connection.handle = connection.handle, None
    return handle is None or handle.detach()


def _put(pool: HTTPConnectionPool, put: Any, connection: HTTPConnection | None) -> None:
    if pool.pool is not None and pool.pool.full():  # urllib3 would warn, and there is nothing wrong
        if connection is not None:
            connection.close()
    else:
        put(connection)


class AbortableAdapter(HTTPAdapter):
    """Sends requests over connections that the handle of `abortable_by` reaches. Threads may share it.

    Idle connections over TLS are kept until `close`; after it the adapter can be used again. A forked child
    begins with none. A SOCKS proxy is refused: its connections are none of ours.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._contexts: dict[str, ssl.SSLContext] = {}
        super().__init__(pool_maxsize=_IDLE)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; see `HTTPAdapter`."""
        if self._process != os.getpid():
            # The parent's connections are the parent's, and so was whatever thread held the lock. Two
            # processes that speak over one would spoil it for both.
            AbortableAdapter.__init__(self)
        return super().send(request, *args, **kwargs)

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        """Make the pools; see `HTTPAdapter`."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        _use_our_pools(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the pools of a proxy; see `HTTPAdapter`."""
        if proxy.lower().startswith("socks"):
            raise requests.exceptions.InvalidSchema(
                "SOCKS proxies are not supported; use an HTTP proxy, or set NO_PROXY for this host"
            )
        with self._lock:
            known = proxy in self.proxy_manager
            manager = super().proxy_manager_for(proxy, **proxy_kwargs)
            if not known:
                _use_our_pools(manager)
            return manager

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: Any, cert: Any = None
    ) -> tuple[Any, Any]:
        """Say which pool serves a request: one of its host and its certificates; see `HTTPAdapter`."""
        host, pool = super().build_connection_pool_key_attributes(request, True, cert)
        if host["scheme"] == "https":
            pool["ssl_context"] = self._context(verify if isinstance(verify, str) else DEFAULT_CA_BUNDLE_PATH)
        return host, pool

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Do nothing: the pool's context holds the certificates, loaded once and not for each connection."""

    def _context(self, certificates: str) -> ssl.SSLContext:
        with self._lock:
            if certificates not in self._contexts:
                self._contexts[certificates] = _context(certificates)
            return self._contexts[certificates]

    def close(self) -> None:
        """Close the idle connections. Those in use are closed when their requests end."""
        with self._lock:
            managers: Mapping[str, PoolManager] = dict(self.proxy_manager)
        for manager in (self.poolmanager, *managers.values()):
            # urllib3 would only drop its reference to them. An error keeps the frames that raised it, and so
            # the response and its pool, and an open socket for as long as anybody keeps the error.
            for key in manager.pools.keys():  # noqa: SIM118  # this mapping refuses to be iterated itself
                if pool := manager.pools.get(key):
                    pool.close()
        super().close()


def _context(certificates: str) -> ssl.SSLContext:
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    is_directory = os.path.isdir(certificates)
    try:
        context.load_verify_locations(
            cafile=None if is_directory else certificates, capath=certificates if is_directory else None
        )
    except OSError as error:  # of TLS, too
        raise CertificatesError(f"the certificates in {certificates!r} cannot be read: {error}") from error
    return context


def _use_our_pools(manager: PoolManager) -> None:
    classes: dict[str, type[HTTPConnectionPool] | type[HTTPSConnectionPool]]
    classes = {"http": _Pool, "https": _TlsPool}
    manager.pool_classes_by_scheme = classes
