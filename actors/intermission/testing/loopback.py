"""`LoopbackServer`: a TCP server on this machine that keeps its errors and, once closed, leaves nothing."""

import socket
import socketserver
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
        # Used by the accepting thread, and by `stop` after that has ended.
        self._connections: list[tuple[threading.Thread, socket.socket]] = []
        self._acceptor = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name="loopback-server-accept", daemon=True
        )

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
        for _, connection in self._connections:
            with suppress(OSError):  # it was closed before
                connection.shutdown(socket.SHUT_RDWR)
        for thread, _ in self._connections:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"{thread.name} did not end within {timeout} s of the server's close")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a new thread."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="loopback-server-handler",
            daemon=True,
        )
        self._connections = [entry for entry in self._connections if entry[0].is_alive()]
        self._connections.append((thread, request))
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a handler raised, instead of printing it."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self._errors.append(error)
