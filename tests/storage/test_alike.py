"""The log in memory and the log on disk do the same, whatever they are asked in whatever order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from intermission_storage import (
    Appended,
    ClaimedError,
    EventLog,
    IndexEntry,
    Kind,
    LmdbEventLog,
    MemoryEventLog,
    Record,
    StorageError,
)

STREAMS = ["a", "b"]
KEYS = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("xy")), max_size=3, unique=True)

APPENDS = st.fixed_dictionaries(
    {
        "who": st.integers(0, 1),
        "stream": st.sampled_from(STREAMS),
        "count": st.integers(0, 3),
        "expected": st.none() | st.integers(0, 4),
        "token": st.none() | st.integers(0, 3),
        "claim": st.booleans(),
        "take_over": st.booleans(),
        "release": st.booleans(),
        "put": KEYS,
        "drop": KEYS,
        "also": st.sampled_from([None, *STREAMS]),
    }
)
DELETES = st.fixed_dictionaries(
    {
        "who": st.integers(0, 1),
        "delete": st.sampled_from(STREAMS),
        "token": st.none() | st.integers(0, 3),
        "take_over": st.booleans(),
    }
)
REOPENINGS = st.fixed_dictionaries({"reopen": st.integers(0, 1)})


@dataclass
class Double:
    """Two owners of one storage, and what they were asked: `open` makes another owner."""

    open: Callable[[], EventLog]
    logs: list[EventLog] = field(default_factory=list[EventLog])
    tokens: list[int] = field(default_factory=lambda: [0])
    count: int = 0

    def __post_init__(self) -> None:
        self.logs = [self.open(), self.open()]

    def do(self, step: dict[str, Any]) -> object:
        """Do one step and return how it went, with nothing in it that only one store can know."""
        try:
            return self._do(dict(step))
        except ClaimedError as refusal:
            return "claimed", [log.owner for log in self.logs].index(refusal.owner)
        except (StorageError, ValueError) as refusal:
            return type(refusal), vars(refusal)

    def look(self) -> object:
        """Return all that can be read, the same for all stores."""
        log = self.logs[0]
        heads = [log.head(stream) for stream in STREAMS]
        claims = [None if head.claim is None else (head.claim.token, head.claim.alive) for head in heads]
        entries = sorted(log.index("i"), key=lambda found: found.key)
        below = sorted(found.key for found in log.index("i", ["x"]))
        return (
            [head.position for head in heads],
            claims,
            [log.read(stream) for stream in STREAMS],
            [log.read(stream, after=1, limit=2) for stream in STREAMS],
            sorted(log.streams()),
            entries,
            below,
        )

    def close(self) -> None:
        for log in self.logs:
            log.close()

    def _do(self, step: dict[str, Any]) -> object:
        if "reopen" in step:
            who = int(step["reopen"])
            self.logs[who].close()
            self.logs[who] = self.open()
            return None
        log = self.logs[int(step.pop("who"))]
        if step["token"] is not None:
            # One of the tokens given so far, the last of them first.
            step["token"] = self.tokens[-1 - step["token"] % len(self.tokens)]
        if "delete" in step:
            return log.delete(step.pop("delete"), **step)
        return self._append(log, **step)

    def _append(
        self, log: EventLog, *, stream: str, count: int, put: Any, drop: Any, also: Any, **options: Any
    ) -> Appended:
        records = [Record(Kind.EVENT, {"n": self.count + number}) for number in range(count)]
        self.count += count
        entries = [IndexEntry("i", key, {"n": self.count}) for key in put]
        gone = [IndexEntry("i", key) for key in drop]
        if also is not None:
            options["also"] = {also: [Record(Kind.EVENT, {"also": self.count})]}
        appended = log.append(stream, records, put=entries, drop=gone, **options)
        if appended.token is not None:
            self.tokens.append(appended.token)
        return appended


@settings(max_examples=scale.rounds(50, 1000))
@given(st.lists(APPENDS | DELETES | REOPENINGS, max_size=30))
def test_both_logs_answer_alike(steps: list[dict[str, Any]]) -> None:
    shared = MemoryEventLog()
    with TemporaryDirectory() as directory:
        path = Path(directory, "log")
        memory = Double(lambda: MemoryEventLog(share=shared))
        disk = Double(lambda: LmdbEventLog(path, sync=False))
        try:
            for step in steps:
                assert memory.do(step) == disk.do(step)
                assert memory.look() == disk.look()
        finally:
            memory.close()
            disk.close()
