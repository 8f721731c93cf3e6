"""Processes by their numbers: those that a script has written down, and whether they have ended."""

from pathlib import Path

from pools import until

__all__ = ["has_ended", "until_ended", "written"]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return state == "Z" and int(rest[16]) <= 1  # its first thread may have ended before others
    except OSError:
        return True


def until_ended(*pids: int) -> None:
    """Return when all of them have."""
    until(lambda: all(map(has_ended, pids)))


def written(path: Path, count: int = 1) -> list[int]:
    """Return the numbers in a file, when it is whole: so many, and a line's end."""
    until(
        lambda: path.exists() and path.read_text().endswith("\n") and len(path.read_text().split()) >= count
    )
    return [int(word) for word in path.read_text().split()]
