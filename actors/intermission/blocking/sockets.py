"""`sock_guard`: a socket that a cancel shuts down, whatever library talks over it."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

from intermission.blocking.aborting import Aborter
from intermission.blocking.parking import scope_for
from intermission.kernel.scope import CancelScope

__all__ = ["sock_guard"]

_AGAIN = 0.01  # seconds; a socket that is not connected yet cannot be shut down


@contextmanager
def sock_guard(sock: socket.socket, *, scope: CancelScope | None = None) -> Generator[None]:
    """Shut a socket down when the scope is cancelled, so that every wait of the block for it ends.

    That holds for `connect`, `accept`, `recv`, `sendall` and a TLS handshake, and for whatever a library does
    over the socket. If it was shut down, leaving the block raises `Cancelled`, even if the block has ended
    without an error: what looks like the end of a stream may be the cancel. The socket is dead then, and its
    owner closes it; a pool must not get it back. If not, the block's result or error stands, and no later
    cancel touches the socket.

    Args:
        sock: A stream socket, plain or TLS, listening, connected or about to be.
        scope: The scope that ends the waits; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled.
        RuntimeError: This thread runs an event loop, which would freeze.
        TypeError: The socket is none of streams. The waits of a datagram socket cannot be ended so.
    """
    scope = scope_for("sock_guard", scope)
    if sock.type != socket.SOCK_STREAM:
        raise TypeError(f"sock_guard() cannot end a wait for {sock!r}; it takes stream sockets")
    if scope is None:
        yield
        return
    # Closing a descriptor wakes nobody, and its number may be somebody else's a moment later. So a copy of
    # our own is shut down, and the connection with it.
    with _copy(sock) as copy:
        aborter = Aborter(scope, lambda: _shut_down(copy), _AGAIN)
        try:
            yield
        except Exception:
            if aborter.leave():
                scope.check()
            raise
        finally:
            aborter.leave()
        if aborter.fired:
            scope.check()


def _copy(sock: socket.socket) -> socket.socket:
    copy = socket.socket(fileno=os.dup(sock.fileno()))
    if sock.gettimeout() is None and copy.gettimeout() is not None:
        os.set_blocking(copy.fileno(), True)  # `socket.setdefaulttimeout` has changed what both share
    return copy


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # not connected yet, or not any more
        sock.shutdown(socket.SHUT_RDWR)
