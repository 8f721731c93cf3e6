"""What the scripts in `tests/benchmarks` share: parts that are chosen by name, and tables in Markdown."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["Row", "run_parts", "show", "write"]

Row = list[str]
B = TypeVar("B")


def show(header: Row, rows: Sequence[Row]) -> None:
    """Write a table in Markdown."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table]
    lines.insert(1, ["-" * width for width in widths])
    write("\n".join(f"| {' | '.join(line)} |" for line in lines))


def write(text: str) -> None:
    """Write a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run_parts(
    description: str,
    parts: Mapping[str, tuple[str, Callable[[B], None]]],
    make: Callable[[Path, bool], B],
) -> None:
    """Run the parts that the command line names, or all.

    Args:
        description: What the script says of itself.
        parts: By name, each with its title.
        make: Makes what they run on, in a directory; the flag asks only to see that it works.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; all if none is given")
    parser.add_argument(
        "--quick", action="store_true", help="only see that it works: the figures say nothing"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: there are {', '.join(parts)}")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="intermission-bench-") as directory:
        bench = make(Path(directory), chosen.quick)
        for name in chosen.parts or parts:
            title, part = parts[name]
            write(f"\n## {name}: {title} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)\n")
            part(bench)
    write(f"\n{time.monotonic() - begun:.0f} s in all")
