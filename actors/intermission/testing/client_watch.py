"""`ClientWatch`: notes at once when clients hang up, for all connections of a server on one thread."""

import select
import socket
import threading
import time
from collections.abc import Callable

__all__ = ["ClientWatch"]

_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class ClientWatch:
    """Watches connections until `close`.

    Args:
        gone: Called with a client and the monotonic time in seconds, once for each that hangs up.
    """

    def __init__(self, gone: Callable[[object, float], None]) -> None:
        self._gone = gone
        self._lock = threading.Lock()
        self._clients: dict[int, tuple[socket.socket, object]] = {}
        self._epoll = select.epoll()
        self._ours, self._wake = socket.socketpair()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="model-server-watch", daemon=True)
        self._thread.start()

    def add(self, connection: socket.socket, client: object) -> Callable[[], None]:
        """Watch a connection; return what ends that."""
        # A descriptor of one's own: TLS takes the socket object over, and its owner may close it.
        own = connection.dup()
        with self._lock:
            self._clients[own.fileno()] = own, client
            self._epoll.register(own, _GONE | select.EPOLLONESHOT)

        def remove() -> None:
            with self._lock:
                if self._clients.pop(own.fileno(), None) is not None:
                    self._epoll.unregister(own)
                    own.close()

        return remove

    def close(self) -> None:
        """End the thread, and forget every connection."""
        self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        with self._lock:
            for own, _ in self._clients.values():
                own.close()
            self._clients.clear()
        self._epoll.close()
        self._ours.close()
        self._wake.close()

    def _run(self) -> None:
        while True:
            events = self._epoll.poll()
            now = time.monotonic()
            for descriptor, _ in events:
                if descriptor == self._wake.fileno():
                    return
                if (client := self._hung_up(descriptor)) is not None:
                    self._gone(client, now)

    def _hung_up(self, descriptor: int) -> object | None:
        """Return the client of a descriptor that hung up, unless the number is another's by now."""
        with self._lock:
            own, client = self._clients.get(descriptor, (None, None))
            if own is None:
                return None
            poll = select.poll()
            poll.register(own, select.POLLRDHUP)
            return client if poll.poll(0) else None
