"""`LogMetrics`: what a log counts of its commits. `Measured`: a log that says it."""

import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from intermission_storage.histogram import SECONDS, SIZES, Histogram

__all__ = ["LogMetrics", "Measured"]


@runtime_checkable
class Measured(Protocol):
    """A log that counts what it does. No log has to."""

    def metrics(self) -> Mapping[str, Any]:
        """Return numbers, and histograms as mappings, by names that begin with `log_`."""
        ...


class LogMetrics:
    """What a log has done since it was opened. Whoever commits writes it, one at a time; anybody may read.

    Attributes:
        batches: Batches that were committed, deletions among them.
        refused: Batches that were refused.
        records: Records that were committed, other streams' among them.
    """

    __slots__ = ("_seconds", "_sizes", "batches", "records", "refused")

    def __init__(self) -> None:
        self.batches = self.refused = self.records = 0
        self._sizes = Histogram(SIZES)
        self._seconds = Histogram(SECONDS)

    def committed(self, batches: int, began: float) -> None:
        """A transaction that began at that moment of `time.perf_counter` holds so many batches."""
        self._sizes.observe(batches)
        self._seconds.observe(time.perf_counter() - began)

    def snapshot(self, waiting: int = 0) -> dict[str, Any]:
        """Return it all; see `Measured.metrics`.

        Args:
            waiting: How many batches wait to be committed.
        """
        sizes = self._sizes.snapshot()
        return {
            "log_appends_total": self.batches,
            "log_refused_total": self.refused,
            "log_records_total": self.records,
            "log_commits_total": sizes["count"],
            "log_batches_per_commit": sizes,
            "log_commit_seconds": self._seconds.snapshot(),
            "log_waiting": waiting,
        }
