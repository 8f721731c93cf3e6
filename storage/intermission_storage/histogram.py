"""`Histogram`: how often something measured was how large, in few numbers."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

__all__ = ["SECONDS", "SIZES", "Histogram"]

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for times, in seconds."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Bounds for numbers of things."""


class Histogram:
    """Counts values by fixed bounds, with their sum and the largest one. For one writer at a time.

    Args:
        bounds: The upper bounds of the buckets, rising; one without a bound follows.
    """

    __slots__ = ("_bounds", "_counts", "_max", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._max = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one that stands on a bound is below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value
        if value > self._max:
            self._max = value

    def snapshot(self) -> dict[str, Any]:
        """Return plain values: `count`, `sum`, `max`, and `buckets`, which maps bounds to counts.

        A bucket counts all values up to its bound, as those of Prometheus do; the last bound is `"+Inf"`.
        """
        counts, buckets, below = list(self._counts), dict[str, int](), 0
        for bound, count in zip((*self._bounds, None), counts, strict=True):
            below += count
            buckets["+Inf" if bound is None else str(bound)] = below
        return {"count": below, "sum": self._sum, "max": self._max, "buckets": buckets}
