"""What the system says of threads that are ready and wait for a processor."""

from pathlib import Path

__all__ = ["waited"]


def waited(process: int, *threads: int | None) -> float:
    """Return how many seconds in all some threads of a process have waited for a processor."""
    files = [Path(f"/proc/{process}/task/{thread}/schedstat") for thread in threads]
    return sum(int(file.read_text().split()[1]) for file in files) / 1e9
