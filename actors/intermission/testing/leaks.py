"""`assert_nothing_left`: a block ends all that it began: threads, descriptors, children, files."""

import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

__all__ = ["assert_nothing_left"]

_PROC = Path("/proc/self")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds between two looks


@contextmanager
def assert_nothing_left(
    *,
    directories: Iterable[str | os.PathLike[str]] = (),
    ignore: Collection[str] = (),
    timeout: float = 5.0,
) -> Generator[None]:
    """Check that the block leaves no new thread, open descriptor, child process or directory entry behind.

    What is still there when the block ends may take `timeout` seconds to go: a thread that was told to stop
    needs a moment. A child that has ended counts until somebody waits for it. An exception of the block goes
    on as it is, and nothing is checked.

    Where there is no `/proc`, as on macOS, children are not seen and files have no names.

    Args:
        directories: Directories whose entries are watched; not those below them. A missing one is empty.
        ignore: Names of entries that do not count, such as `"__pycache__"`.
        timeout: Seconds to wait for the last leftover to go.

    Raises:
        AssertionError: Something was left; the message names each thing.
    """
    watched = [Path(directory) for directory in directories]
    entries = {directory: _entries(directory, frozenset(ignore)) for directory in watched}
    before = _look()
    yield
    left = _wait_for_the_rest(before, entries, frozenset(ignore), timeout)
    if left:
        lines = "\n".join(f"  {line}" for line in sorted(map(str, left)))
        raise AssertionError(f"left behind, {timeout} s after the end of the block:\n{lines}")


@dataclass(frozen=True, slots=True)
class _LeftThread:
    thread: threading.Thread

    def __str__(self) -> str:
        kind = "daemon thread" if self.thread.daemon else "thread"
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers
        frame = frames.get(self.thread.ident or 0)
        where = f", in {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        return f"{kind} {self.thread.name!r}{where}"


@dataclass(frozen=True, slots=True)
class _LeftDescriptor:
    # The inode tells a descriptor from a later one that has got the same number.
    number: int
    device: int
    inode: int

    def __str__(self) -> str:
        with suppress(OSError, AttributeError):  # an unknown kind of socket has no names
            if stat.S_ISSOCK(os.fstat(self.number).st_mode):
                return f"descriptor {self.number}: {_describe_socket(self.number)}"
        try:
            return f"descriptor {self.number}: {os.readlink(_PROC / 'fd' / str(self.number))}"
        except OSError:
            return f"descriptor {self.number}: device {self.device}, inode {self.inode}"


@dataclass(frozen=True, slots=True)
class _LeftChild:
    pid: int

    def __str__(self) -> str:
        process = _PROC.parent / str(self.pid)
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            name = (process / "comm").read_text(errors="replace").strip()
        except OSError:
            command = name = "gone by now"
        # A process that has ended has no command line any more.
        return f"child {self.pid}: {command or f'{name}, ended, but nobody has waited for it'}"


@dataclass(frozen=True, slots=True)
class _LeftEntry:
    path: Path

    def __str__(self) -> str:
        return f"{'directory' if self.path.is_dir() else 'file'} {self.path}"


_Left = _LeftThread | _LeftDescriptor | _LeftChild | _LeftEntry


def _wait_for_the_rest(
    before: set[_Left], entries: Mapping[Path, frozenset[_Left]], ignore: frozenset[str], timeout: float
) -> set[_Left]:
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    never = threading.Event()
    while (left := _left(before, entries, ignore)) and time.monotonic() < deadline:
        never.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return left


def _left(before: set[_Left], entries: Mapping[Path, frozenset[_Left]], ignore: frozenset[str]) -> set[_Left]:
    left = _look() - before
    for directory, known in entries.items():
        now = _entries(directory, ignore)
        if now is not known:
            left |= now - known
    return left


def _look() -> set[_Left]:
    return {*_threads(), *_descriptors(), *_children()}


def _threads() -> Iterator[_LeftThread]:
    tasks = _PROC / "task"
    for thread in threading.enumerate():
        # Python keeps a thread that came in from C in its list for ever; the system knows whether it lives.
        if thread.native_id is None or not tasks.exists() or (tasks / str(thread.native_id)).exists():
            yield _LeftThread(thread)


def _descriptors() -> Iterator[_LeftDescriptor]:
    directory = _PROC / "fd" if _PROC.exists() else Path("/dev/fd")
    for name in os.listdir(directory):
        # The descriptor that listed the directory is closed by now, and others may be.
        with suppress(OSError):
            status = os.fstat(int(name))
            yield _LeftDescriptor(int(name), status.st_dev, status.st_ino)


def _children() -> Iterator[_LeftChild]:
    for path in _PROC.glob("task/*/children"):
        with suppress(OSError):
            for pid in path.read_text().split():
                yield _LeftChild(int(pid))


# What stood in a directory, by when it was changed last. Nothing is kept of one that was changed just before
# it was listed: another change could have the same time.
_listed: dict[tuple[Path, frozenset[str]], tuple[int, frozenset[_Left]]] = {}
_MAX_LISTED = 1000
_JUST_BEFORE = 100_000_000  # nanoseconds: more than a file system's clock is coarse


def _entries(directory: Path, ignore: frozenset[str]) -> frozenset[_Left]:
    try:
        changed = os.stat(directory).st_mtime_ns
        found = _listed.get((directory, ignore))
        if found is not None and found[0] == changed:
            return found[1]
        entries = frozenset[_Left](
            _LeftEntry(directory / name) for name in os.listdir(directory) if name not in ignore
        )
    except FileNotFoundError:
        return frozenset()
    if time.time_ns() - changed > _JUST_BEFORE:
        if len(_listed) >= _MAX_LISTED:
            _listed.clear()
        _listed[directory, ignore] = changed, entries
    return entries


def _describe_socket(number: int) -> str:
    # A copy, so that closing the socket object leaves the descriptor itself alone.
    with socket.socket(fileno=os.dup(number)) as copy:
        text = f"{copy.family.name} {copy.type.name} socket {_address(copy.getsockname())}"
        with suppress(OSError):  # it has no peer
            text += f" to {_address(copy.getpeername())}"
        return text


def _address(address: object) -> str:
    if isinstance(address, tuple):  # of an IP socket: host, port and, for version 6, more
        return ":".join(map(str, cast("tuple[object, ...]", address)[:2]))
    return repr(address)
