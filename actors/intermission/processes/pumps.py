"""`Pump`: moves what a child process reads and writes, until it has ended, a cancel comes or time is over."""

import io
import os
import select
import selectors
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from subprocess import Popen
from typing import IO, Any, cast

from intermission.kernel.scope import CancelScope

__all__ = ["End", "Pump", "alarm_of"]

_LOOK = 0.02  # seconds between looks at a child, on a system that cannot wait for one as for a file
_SIZE = 65536  # bytes read at a time
_AT_ONCE = select.PIPE_BUF  # bytes that a pipe which is ready takes without blocking


class End(Enum):
    """Why `Pump.run` returned."""

    DONE = auto()
    CANCELLED = auto()
    TIMEOUT = auto()
    READY = auto()


@contextmanager
def alarm_of(scope: CancelScope) -> Generator[int]:
    """Give a descriptor that becomes readable when the scope is cancelled."""
    reader, writer = os.pipe()
    # Whoever takes the writer closes it, so its number is never used when it may be somebody else's.
    writers = {0: writer}

    def close_writer() -> None:
        mine = writers.pop(0, None)
        if mine is not None:
            os.close(mine)

    handle = scope.on_cancel_now(close_writer)
    try:
        yield reader
    finally:
        handle.remove()
        close_writer()
        os.close(reader)


class Pump:
    """Waits for a child process and, once `attach` was called, moves what goes through its pipes.

    Args:
        process: The child.
    """

    def __init__(self, process: Popen[Any]) -> None:
        self._process = process
        self._selector = selectors.PollSelector()
        self._got: dict[int, list[bytes]] = {}
        self._left = memoryview(b"")
        self._has_exited = process.returncode is not None
        self._exit: int | None = None
        self._watch_exit()

    def attach(self, given: str | bytes | None) -> None:
        """Move data from now on: `given` into the child's input, which is closed then, and what it writes."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with suppress(BrokenPipeError):
                process.stdin.flush()
            self._left = memoryview(_encoded(given, process.stdin))
            if self._left:
                self._selector.register(process.stdin, selectors.EVENT_WRITE)
            else:
                _close(process.stdin)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self._got[id(stream)] = []
                self._selector.register(stream, selectors.EVENT_READ)

    def run(
        self,
        timeout: float | None,
        alarm: int | None = None,
        *,
        until_exit: bool = False,
        ready: tuple[int, int] | None = None,
    ) -> End:
        """Go on until the child has ended and its pipes have, or the time is over, or the alarm comes.

        Args:
            timeout: Seconds; None: as long as it takes.
            alarm: The descriptor of `alarm_of`.
            until_exit: Whether the end of the child is enough.
            ready: One more descriptor, and the events of it, as of `selectors`, that end this with `READY`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if alarm is not None:
            self._selector.register(alarm, selectors.EVENT_READ)
        if ready is not None:
            self._selector.register(*ready)
        try:
            while not (self.has_exited and (until_exit or self._all_at_end(alarm))):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return End.TIMEOUT
                for key, _ in self._selector.select(self._longest(left)):
                    if key.fd == alarm:
                        return End.CANCELLED
                    if ready is not None and key.fd == ready[0]:
                        return End.READY
                    self._move(key)
            return End.DONE
        finally:
            if alarm is not None:
                self._selector.unregister(alarm)
            if ready is not None:
                self._selector.unregister(ready[0])

    @property
    def has_exited(self) -> bool:
        """Whether the child has ended, as far as was seen; somebody may have to reap it."""
        if not self._has_exited and self._exit is None:
            self._has_exited = self._process.poll() is not None
        return self._has_exited

    def output(self, *, as_bytes: bool = False) -> tuple[Any, Any]:
        """Return what the child has written to its output and its error pipe; None where there is none.

        Args:
            as_bytes: Whether to leave it undecoded; it may end in the midst of a character.
        """
        process = self._process
        return self._joined(process.stdout, as_bytes), self._joined(process.stderr, as_bytes)

    def release(self) -> None:
        """Let go of what this waits with. The pipes stay as they are."""
        self._selector.close()
        self._close_exit()

    def _watch_exit(self) -> None:
        if self._has_exited:
            return
        try:
            self._exit = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            pass  # not on this system, not allowed here, or reaped by somebody else: `run` looks now and then
        else:
            self._selector.register(self._exit, selectors.EVENT_READ)

    def _close_exit(self) -> None:
        exit_, self._exit = self._exit, None
        if exit_ is not None:
            os.close(exit_)

    def _all_at_end(self, alarm: int | None) -> bool:
        return len(self._selector.get_map()) == (alarm is not None)

    def _longest(self, left: float | None) -> float | None:
        if self._has_exited or self._exit is not None:
            return left
        return _LOOK if left is None else min(left, _LOOK)

    def _move(self, key: selectors.SelectorKey) -> None:
        if key.fd == self._exit:
            self._has_exited = True
            self._selector.unregister(key.fd)
            self._close_exit()
        elif key.events & selectors.EVENT_WRITE:
            self._write(key)
        else:
            data = os.read(key.fd, _SIZE)
            self._got[id(key.fileobj)].append(data)
            if not data:
                self._selector.unregister(key.fileobj)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            self._left = self._left[os.write(key.fd, self._left[:_AT_ONCE]) :]
        except BrokenPipeError:  # the child reads no more
            self._left = memoryview(b"")
        if not self._left:
            self._selector.unregister(key.fileobj)
            _close(cast("IO[Any]", key.fileobj))

    def _joined(self, stream: IO[Any] | None, as_bytes: bool) -> Any:
        if stream is None:
            return None
        data = b"".join(self._got.get(id(stream), ()))
        if as_bytes or not isinstance(stream, io.TextIOWrapper):
            return data
        text = data.decode(stream.encoding, stream.errors or "strict")
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _encoded(given: str | bytes | None, stream: IO[Any]) -> bytes:
    if isinstance(given, str):
        text = cast(io.TextIOWrapper, stream)
        return given.encode(text.encoding, text.errors or "strict")
    return given or b""


def _close(stream: IO[Any]) -> None:
    with suppress(BrokenPipeError):  # the child has ended without reading what was in the buffer
        stream.close()
