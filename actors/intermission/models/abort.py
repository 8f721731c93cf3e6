"""`AbortHandle`: ends an HTTP exchange from another thread, when its scope is cancelled or a limit passes.

Closing a response from another thread waits for the one that reads, and closing a socket wakes nobody. What
wakes a thread at once, wherever it blocks, and tells the peer too, is a shutdown. It is done to a duplicate
of the descriptor, since TLS takes the socket object over, and since a number is used again once it is free.

No lock anywhere: a signal handler or a finaliser may cancel. Instead each side writes first and looks then:
who aborts says so and then takes the duplicate; the exchange puts its duplicate there, or away, and then
looks whether somebody aborts.
"""

import math
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, Self

from intermission.kernel.cancel_hooks import CancelHandle
from intermission.kernel.timer import TimerHandle
from intermission.models.limits import CallLimits

__all__ = ["AbortHandle"]


# On and 0 seconds: what is not sent yet is thrown away by the close. A peer that does not read would else
# learn of the end of the connection behind all that it has not read.
_NO_LINGER = struct.pack("ii", 1, 0)


def _shutdown_of(libc: Any) -> Callable[[socket.socket], object]:
    """Return what shuts a connection down and, with the C library, keeps Python's lock meanwhile.

    `socket.shutdown` gives the lock away, to the thread that it has just woken, and whoever cancels hundreds
    of calls stands in line for it after each. A shutdown waits for nothing, so nobody gains by that.
    """
    if libc is None:
        return lambda sock: sock.shutdown(socket.SHUT_RDWR)
    shutdown = libc.shutdown  # what it returns says no more than the error that is suppressed
    return lambda sock: shutdown(sock.fileno(), socket.SHUT_RDWR)


try:
    import ctypes
except ImportError:  # not every Python was built with it
    _shutdown = _shutdown_of(None)
else:
    _shutdown = _shutdown_of(ctypes.PyDLL(None))


class _Descriptor(Protocol):
    """A socket, or what TLS inside TLS has in place of one."""

    def fileno(self) -> int: ...
    def gettimeout(self) -> float | None: ...


class _Duplicate:
    """A second descriptor of a socket. The last reference closes it, so it is never shut down after that."""

    __slots__ = ("_socket",)

    def __init__(self, own: socket.socket) -> None:
        self._socket = own

    def shut_down(self, *, reset: bool) -> None:
        with suppress(OSError):  # it is not connected yet, or not any more
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            _shutdown(self._socket)

    def __del__(self) -> None:
        self._socket.close()


class AbortHandle:
    """What can end one exchange, while its `with` block runs. Used by the thread that makes the call.

    Args:
        limits: Of the call; they say which scope covers it, too.

    Attributes:
        expired: The name of the limit that has passed, `None` if none has.
    """

    __slots__ = (
        "_alarm",
        "_armed",
        "_due",
        "_duplicate",
        "_hook",
        "_left",
        "_limit",
        "_limits",
        "_over",
        "_sending",
        "_stopped",
        "expired",
    )

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._duplicate: _Duplicate | None = None
        self._hook: CancelHandle | None = None
        self._stopped = False
        self._sending = False
        self._over = False
        self.expired: str | None = None
        # The limit that is counted, what is left of it, and when it passes: never, unless somebody waits.
        self._limit = ""
        self._left = self._due = math.inf
        self._alarm: TimerHandle | None = None
        self._armed = math.inf  # when the alarm rings

    def __enter__(self) -> Self:
        self._limits.scope.check()
        self._hook = self._limits.scope.on_cancel_now(self._abort)
        if self._limits.deadline < math.inf:
            self._arm(self._limits.deadline)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        hook, self._hook = self._hook, None  # it refers to this handle
        if hook is not None:
            hook.remove()
        if self._alarm is not None:
            self._alarm.cancel()
        self._duplicate = None

    @property
    def stopped(self) -> bool:
        """Whether the exchange was aborted."""
        return self._stopped

    def attach(self, sock: _Descriptor) -> None:
        """Let an abort reach the socket, which this exchange uses from now on.

        Raises:
            ConnectionAbortedError: The exchange was aborted.
            OSError: There is no descriptor left.
        """
        own = socket.socket(fileno=os.dup(sock.fileno()))
        own.settimeout(sock.gettimeout())  # the mode is common to both, and a new object may have changed it
        self._sending = True
        self._duplicate = _Duplicate(own)
        self.check_stopped()

    def sent(self) -> None:
        """The request is with the system; what follows is the answer."""
        self._sending = False

    def check_stopped(self) -> None:
        """Raise `ConnectionAbortedError` if the exchange was aborted."""
        if self._stopped:
            raise ConnectionAbortedError("the call was aborted")

    def detach(self) -> bool:
        """Let no abort reach the socket any more; return whether none has."""
        self._duplicate = None
        return not self._stopped

    def check(self) -> None:
        """Raise `Cancelled` if the call's scope is cancelled."""
        self._limits.scope.check()

    def seconds(self, limit: str) -> float:
        """Return how long a limit is."""
        return self._limits.seconds(limit)

    def expect(self, limit: str) -> None:
        """Count another limit from here on, and all of it: what was awaited has come."""
        self._limit = limit
        self._left = self._limits.seconds(limit)

    def wait(self) -> None:
        """The thread is about to wait for the service; only such time counts, apart from the total."""
        if self._left < math.inf:
            self._due = due = self._limits.timer.clock.monotonic() + self._left
            if due < self._armed:
                self._arm(due)

    def waited(self) -> None:
        """The thread has something from the service."""
        if self._left < math.inf:
            self._left = self._due - self._limits.timer.clock.monotonic()
            self._due = math.inf

    def _abort(self) -> None:
        self._stopped = True
        duplicate = self._duplicate
        if duplicate is not None:
            duplicate.shut_down(reset=self._sending)

    def _arm(self, when: float) -> None:
        timer, old = self._limits.timer, self._alarm
        with suppress(RuntimeError):  # the timer is closed: the runtime is, and has cancelled its calls
            self._alarm = timer.call_later(when - timer.clock.monotonic(), self._look)
            self._armed = when
            if old is not None:
                old.cancel()
            if self._over:
                self._alarm.cancel()

    def _look(self) -> None:
        """On the timer's thread: abort if a limit has passed, else come back when one may have."""
        self._armed = math.inf  # first: who waits writes the time first and looks at this then
        limit, due, deadline = self._limit, self._due, self._limits.deadline
        first = min(due, deadline)
        if self._over or first == math.inf:
            return
        if self._limits.timer.clock.monotonic() < first:
            self._arm(first)
        else:
            self.expired = limit if due < deadline else self._limits.total
            self._abort()
