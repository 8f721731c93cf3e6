"""What is looked at before LMDB trusts a data file: that it is whole, and that its pages are sound."""

import contextlib
import os
import struct
from pathlib import Path

from intermission_storage.errors import LogCorruptError, LogReadOnlyError
from intermission_storage.lmdb_owners import anybody_lives
from intermission_storage.lmdb_pages import data_problems

__all__ = [
    "check_length",
    "check_pages",
    "is_marked_clean",
    "mark_clean",
    "may_lock",
    "page_problems",
    "reserve_lock_file",
]

# Of a meta page: magic number, page size, last page and transaction. The offsets are those of the format's
# version 1 on a 64-bit machine, which is what LMDB 0.9 writes.
_META = struct.Struct("=16xI20xI92xQQ")
_MAGIC = 0xBEEFC0DE

# Bytes of a file whose pages are looked at. It takes a quarter of a second, and
# where most values are empty, two.
_MAX_CHECKED = 64 << 20
_TRIES = 3

_LOCK_HEADER = 4096  # bytes of LMDB's lock file before its readers, rounded up
_READER = 64


def check_length(directory: Path) -> None:
    """Refuse a file that has been cut short: LMDB would end the process where it comes to what is missing.

    Raises:
        LogCorruptError: Pages that are in use are missing.
    """
    data = directory / "data.mdb"
    if data.exists() and not data.is_file():
        raise LogCorruptError(f"{data} is no file. Nothing was changed.")
    try:
        size = data.stat().st_size
        with data.open("rb") as file:
            start = file.read(_META.size)
            if len(start) < _META.size:
                return  # no log yet; LMDB itself judges what else is too short to be one
            _, page_size, *_ = _META.unpack(start)
            file.seek(page_size)
            second = file.read(_META.size)
    except FileNotFoundError:
        return
    metas = [_META.unpack(raw) for raw in (start, second) if len(raw) == _META.size]
    valid = [meta for meta in metas if meta[0] == _MAGIC]
    if not valid:
        return  # not LMDB's, which LMDB itself says best
    _, page_size, last_page, _ = max(valid, key=lambda meta: meta[3])
    if size >= (last_page + 1) * page_size:
        return
    # Pages at the end that nothing points to may be missing lawfully, so look what is.
    problems = data_problems(data)
    if problems:
        raise LogCorruptError(
            f"{data} has been cut short: {size} bytes of {(last_page + 1) * page_size}. {problems[0]}. "
            "Nothing was changed in it; restore the directory from a copy."
        )


def check_pages(directory: Path) -> None:
    """Refuse a file with a damaged page: LMDB would end the process, or damage more, when it comes to it.

    A read transaction must be open, so that other processes use no page anew meanwhile. A file of more than
    64 MiB is not looked at: that would take too long.

    Raises:
        LogCorruptError: A page is damaged.
    """
    data = directory / "data.mdb"
    if data.stat().st_size > _MAX_CHECKED:
        return
    problems: list[str] = []
    for _ in range(_TRIES):  # for between two looks of the check another process may have made it longer
        problems = data_problems(data)
        if not problems:
            return
    raise LogCorruptError(
        f"{data} is damaged: {problems[0]}. Nothing was changed in it; restore the directory from a copy."
    )


def reserve_lock_file(directory: Path, readers: int) -> None:
    """Give LMDB's lock file its place on the disk: on a full one LMDB would end the process at its first use.

    Raises:
        OSError: There is no room for it.
    """
    size = _LOCK_HEADER + readers * _READER
    lock = os.open(directory / "lock.mdb", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        status = os.fstat(lock)
        if status.st_blocks * 512 < size:
            os.posix_fallocate(lock, 0, size)
    finally:
        os.close(lock)


def may_lock(directory: Path) -> bool:
    """Return whether a reader can have a place in LMDB's table of readers, which keeps the pages it reads.

    Raises:
        LogReadOnlyError: It cannot, and somebody may be writing: the pages would change under the reader.
    """
    if os.access(directory / "lock.mdb", os.W_OK) or os.access(directory, os.W_OK):
        return True
    if anybody_lives(directory):
        raise LogReadOnlyError(
            f"{directory} is in use, and its lock.mdb, where a reader needs a place, cannot be written. "
            "Ask for the right to write that file, or read when the log is closed."
        )
    return False


def mark_clean(directory: Path) -> None:
    """Write down that the log was closed in good order: its pages need no look when it is opened next."""
    with contextlib.suppress(OSError):
        (directory / "clean").write_text(_state(directory))


def is_marked_clean(directory: Path) -> bool:
    """Return whether nothing has changed since the log was closed in good order."""
    try:
        return (directory / "clean").read_text() == _state(directory)
    except (OSError, ValueError):
        return False


def _state(directory: Path) -> str:
    status = (directory / "data.mdb").stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def page_problems(directory: Path) -> list[str]:
    """Return what is wrong with the pages of a log's data file, a line each."""
    return data_problems(directory / "data.mdb")
