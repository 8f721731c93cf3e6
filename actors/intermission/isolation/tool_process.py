"""`ToolProcess`: a child that runs functions, one call at a time, and the conversation with it."""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgpack

from intermission.isolation.errors import ToolProcessError
from intermission.isolation.setting import Setting
from intermission.kernel.scope import CancelScope
from intermission.processes.groups import Descendant, Group
from intermission.processes.pumps import End, Pump, alarm_of

__all__ = ["Reply", "ToolProcess"]

_PROGRAM: Final = str(Path(__file__).parents[1] / "tool_child.py")
_SIZE = 2**18  # bytes read at a time
_LONGEST = 2**26  # bytes of an answer; no answer that is kept is so long
_PATIENCE = 1.0  # seconds for an idle child to end by itself


class Reply(NamedTuple):
    """What a call came to.

    Attributes:
        kind: How it ended; the program of the child says which ways there are.
        values: What there is to say of it.
    """

    kind: str
    values: list[Any]


class ToolProcess:
    """A child that runs functions, in a session and a process group of its own.

    It ends with this process, however that ends: the system kills the group as soon as nobody holds the other
    end of a pipe. (The signal that Linux sends at a parent's death comes when the parent's *thread* ends.)

    Args:
        setting: What it begins with.

    Raises:
        ToolProcessError: The system does not start it.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._unread = bytearray()
        opened: list[Callable[[], object]] = []
        try:
            ours, theirs = socket.socketpair()
            opened += (ours.close, theirs.close)
            life, held = os.pipe()
            opened += (lambda: os.close(life), lambda: os.close(held))
            self._process = _start(theirs.fileno(), life)
        except (OSError, TypeError, ValueError) as error:  # `sys.executable` may be None
            for close in opened:
                close()
            raise ToolProcessError.not_begun(f"the system does not start it: {error}") from error
        theirs.close()
        os.close(life)
        self._held: int | None = held
        self._socket = ours
        ours.setblocking(False)
        self._pump = Pump(self._process)
        self._unsent = _framed(setting.message)
        _open.add(self)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended. It does nothing just now."""
        return self._process.poll() is not None

    def call(
        self, request: object, scope: CancelScope, grace: float, left: Callable[[Descendant], None]
    ) -> tuple[Reply | None, bool]:
        """Have it do something, and wait for that.

        When the scope is cancelled, the child is told why and its group gets a SIGTERM, which interrupts the
        function; what has not ended after the grace is killed. Whatever happens, this returns or raises when
        the function has ended, and if more than that has happened, when the child has.

        Args:
            request: What it is told, of plain values.
            scope: The call's.
            grace: Seconds.
            left: Told of each process that was left behind and is not of the group.

        Returns:
            What came of it, `None` if the child ended without a word or was cancelled before it said one; and
            whether it can serve another call. If not, it has ended.

        Raises:
            ToolProcessError: The system has no descriptors for the wait; nothing was begun.
        """
        group = Group(self._process, grace, scope.escalate, whole_session=True)
        self._unsent += _framed(msgpack.packb(request))
        try:
            with ExitStack() as stack:
                try:
                    alarm = stack.enter_context(alarm_of(scope))
                except OSError as error:
                    raise ToolProcessError.not_begun(f"there is no way to cancel it: {error}") from error
                reply = self._exchange(None, alarm)
            if reply is None and scope.cancelled:
                if not self._unsent:
                    self._unsent = _framed(msgpack.packb([scope.reason, scope.source]))
                    self._send()
                group.press()
                reply = self._exchange(group.patience)
            if reply is not None and reply.values[-1] is True and not scope.cancelled:
                return reply, True
        except BaseException:
            self._end(group, left)
            raise
        self._end(group, left)
        return reply, False

    @property
    def end_as_text(self) -> str:
        """How it has ended, for people."""
        code = self._process.returncode
        if code is None:
            return "does not end"
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"

    def dismiss(self) -> None:
        """Let it end by itself, as it does nothing; does not wait."""
        self._socket.close()

    def end_idle(self, timeout: float = _PATIENCE) -> None:
        """End it, as it does nothing: by itself, if it does within `timeout`."""
        self.dismiss()
        if self._pump.run(timeout, until_exit=True) is End.DONE:
            self._process.wait()
        self._end(Group(self._process, 0.0, None, whole_session=True), lambda _: None)

    def _end(self, group: Group, left: Callable[[Descendant], None]) -> None:
        try:
            group.end(self._pump)
        finally:
            self._close()
        for one in group.leavers:
            left(one)

    def _close(self) -> None:
        self.forsake()
        self._pump.release()

    def forsake(self) -> None:
        """Close this process's ends of what they share. If it has not ended, the system ends it now, unless
        another process has copies of these ends."""
        self._socket.close()
        held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def _exchange(self, timeout: float | None, alarm: int | None = None) -> Reply | None:
        """Send what is to be sent and return the next answer; `None` if there is none, or not in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = (self._socket.fileno(), events)
            end = self._pump.run(seconds, alarm, until_exit=True, ready=ready)
            if end in {End.CANCELLED, End.TIMEOUT}:
                return None
            self._send()
            open_still = self._receive()
            reply = self._next()
            if reply is not None or end is End.DONE or not open_still:
                return reply

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it does not listen any more
            self._unsent.clear()

    def _receive(self) -> bool:
        """Take what has come; return whether more can come."""
        try:
            while len(self._unread) < _LONGEST:
                read = self._socket.recv(_SIZE)
                if not read:
                    return False
                self._unread += read
        except BlockingIOError:
            return int.from_bytes(self._unread[:4], "big") <= _LONGEST  # else the tool has written there
        except OSError:
            return False
        return False  # what it says has no end

    def _next(self) -> Reply | None:
        if len(self._unread) < 4:
            return None
        size = 4 + int.from_bytes(self._unread[:4], "big")
        if len(self._unread) < size:
            return None
        kind, *values = cast("list[Any]", msgpack.unpackb(self._unread[4:size]))
        del self._unread[:size]
        return Reply(kind, values)


def _start(connection: int, life: int) -> "subprocess.Popen[bytes]":
    # As `multiprocessing` starts its own. `-P`: the program's folder is no place to import from.
    known: Any = subprocess  # the type checkers have not heard of this function
    flags: list[str] = known._args_from_interpreter_flags()
    return subprocess.Popen(
        [sys.executable, *flags, "-P", _PROGRAM, str(connection), str(life)],
        stdin=subprocess.DEVNULL,
        pass_fds=(connection, life),
        start_new_session=True,
    )


def _framed(message: bytes) -> bytearray:
    return bytearray(len(message).to_bytes(4, "big") + message)


_open: "weakref.WeakSet[ToolProcess]" = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child would keep them alive when their owner is gone.
    for process in list(_open):
        process.forsake()


os.register_at_fork(after_in_child=_after_fork)
