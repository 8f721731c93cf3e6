"""`LoopbackServer`: a TCP server on this machine that keeps its errors and, once closed, leaves nothing."""

import functools
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from intermission.testing.sync import PATIENCE

__all__ = ["LoopbackServer"]

_POLL = 0.02  # seconds; how soon the accepting thread sees that it has to end


class LoopbackServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves each connection on a thread of its own, at a port that the system chooses.

    Not an `HTTPServer`: that one would look up its own name, which may mean a slow network.

    Args:
        handler: Serves a connection, as `socketserver` has it.
        errors: Where to put what handlers raise, but for connections that broke.
    """

    daemon_threads = True  # a handler that hangs is reported by `stop`, and must not hang the test run too
    request_queue_size = 128

    def __init__(
        self,
        handler: Callable[[Any, Any, Any], socketserver.BaseRequestHandler],
        errors: list[BaseException],
    ) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._errors = errors
        # Written by the accepting thread, never changed in place.
        self._connections: list[_Connection] = []
        self._accepted = 0
        self._acceptor = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name="loopback-server-accept", daemon=True
        )

    @property
    def accepted(self) -> int:
        """How many connections there have been."""
        return self._accepted

    @property
    def port(self) -> int:
        """The port that it listens at."""
        port: int = self.socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to accept connections."""
        self._acceptor.start()

    def stop(self, timeout: float = PATIENCE) -> None:
        """Accept no more, hang up on every client, and wait until every thread has ended.

        Raises:
            TimeoutError: A handler did not end within `timeout` seconds.
        """
        self.shutdown()
        self._acceptor.join(timeout)
        self.server_close()
        self.hang_up()
        for connection in self._connections:
            connection.thread.join(timeout)
            if connection.thread.is_alive():
                raise TimeoutError(
                    f"{connection.thread.name} did not end within {timeout} s of the server's close"
                )

    def hang_up(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.hang_up()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a new thread."""
        connection = _Connection(request, functools.partial(self._serve, request, client_address))
        self._connections = [
            *(known for known in self._connections if known.thread.is_alive()),
            connection,
        ]
        self._accepted += 1
        connection.thread.start()

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - it is kept, or it is a connection that broke
            self.handle_error(request, client_address)
        finally:
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a handler raised, instead of printing it."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self._errors.append(error)


class _Connection:
    """A connection and its thread. The socket is a descriptor of its own: TLS takes the object over."""

    def __init__(self, request: socket.socket, serve: Callable[[], None]) -> None:
        self._serve = serve
        self._socket = request.dup()
        self.thread = threading.Thread(target=self._run, name="loopback-server-handler", daemon=True)

    def hang_up(self) -> None:
        with suppress(OSError):  # the client was faster, or the thread
            self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            if not _resets(self._socket):
                self.hang_up()
            self._socket.close()


def _resets(connection: socket.socket) -> bool:
    """Return whether the close of a connection resets it, as its handler wants."""
    lingers, seconds = struct.unpack("ii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
    return bool(lingers) and seconds == 0
