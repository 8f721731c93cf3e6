"""`Batch` and `HeldBatches`: what was handed to a log and has not reached it yet, stream by stream."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from intermission.testing.sync import PATIENCE, Gate
from intermission_storage import Appended, BatchOptions, EventLog, MemoryEventLog, Record, StorageError

__all__ = ["Batch", "Done", "HeldBatches", "Outcome"]

Outcome: TypeAlias = Appended | StorageError
Done: TypeAlias = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """What `EventLog.submit` is called with, but for its `done`."""

    stream: str
    records: Sequence[Record]
    options: BatchOptions

    def check(self) -> None:
        """Raise what a log raises that will not take this batch, as the call that hands it over does."""
        with MemoryEventLog() as log:
            self.submit(log, _ignore)

    def submit(self, log: EventLog, done: Done) -> None:
        """Hand the batch to a log."""
        log.submit(self.stream, self.records, done, **self.options)


class HeldBatches:
    """Batches at gates, and behind each those of the same stream, which keep their order.

    A stream that is held has a thread; other streams go on.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._gates: list[Gate] = []

    def keep(self, stream: str, gate: Gate | None, commit: Callable[[], None]) -> bool:
        """Keep a batch if it has a gate, or if its stream is held; return whether it is kept.

        Args:
            stream: Its stream.
            gate: Where `commit` waits; `None` if it does not.
            commit: Called when the batch's turn comes. It must not raise.
        """
        with self._changed:
            waiting = self._waiting.get(stream)
            if waiting is None and gate is None:
                return False
            if gate is not None:
                self._gates.append(gate)
            if waiting is None:
                waiting = self._waiting[stream] = deque()
                threading.Thread(target=self._run, args=(stream,), name="faulty-log", daemon=True).start()
            waiting.append(commit)
            return True

    def wait(self, stream: str | None = None) -> None:
        """Wait until nothing of a stream is held, or nothing at all.

        Raises:
            TimeoutError: The test has not opened a gate.
        """
        with self._changed:
            free = self._changed.wait_for(
                lambda: not self._waiting if stream is None else stream not in self._waiting, 2 * PATIENCE
            )
        if not free:
            raise TimeoutError(f"batches were held for more than {2 * PATIENCE} s")

    def open_gates(self) -> None:
        """Hold nothing any more."""
        with self._changed:
            for gate in self._gates:
                gate.open()

    def _run(self, stream: str) -> None:
        while True:
            with self._changed:
                waiting = self._waiting[stream]
                if not waiting:
                    del self._waiting[stream]
                    self._changed.notify_all()
                    return
                commit = waiting.popleft()
            commit()


def _ignore(_: Outcome) -> None:
    """Do nothing."""
