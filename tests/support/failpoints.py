"""Places in a run at which its process can be killed, and what it leaves in its folder for the next to read.

A process has one `Points`. Each place has a name, with a number for each time that it is passed.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Unpack

from intermission import Event
from intermission.sessions.records import event_of
from intermission_storage import Appended, BatchOptions, Kind, LmdbEventLog, Record, StorageError

__all__ = ["Diary", "DyingLog", "Points", "kill", "label", "said_by"]


class Diary:
    """Lines of JSON in files of a folder: written at once, whatever happens to the process then."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def write(self, name: str, line: object) -> None:
        """Add a line to a file."""
        file = os.open(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)

    def read(self, name: str) -> list[Any]:
        """Return the lines of a file; none if there is no such file."""
        path = self._folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Points:
    """Places that are passed; the process is killed at one of them.

    Args:
        diary: Keeps the names of those that were passed, in its file "points".
        die: The name of the place where the process is killed, or how many are passed before.
        late: Seconds that it goes on after that place, while it is being killed.
        crowd: Names of places that are not passed: the process is killed when somebody stands at each.
    """

    def __init__(
        self,
        diary: Diary,
        die: str | int | None = None,
        late: float | None = None,
        crowd: Collection[str] = (),
    ) -> None:
        self._diary = diary
        self._die = die
        self._late = late
        self._crowd = set(crowd)
        self._lock = threading.Lock()
        self._passed: Counter[str] = Counter()
        self._count = 0

    def reach(self, name: str) -> None:
        """Pass a place."""
        with self._lock:
            self._passed[name] += 1
            self._count += 1
            count, named = self._count, f"{name} #{self._passed[name]}"
            self._diary.write("points", named)
            held = named in self._crowd
            self._crowd.discard(named)
            full = held and not self._crowd
        if full:
            kill()
        elif held:
            threading.Event().wait()
        if self._die not in {named, count}:
            return
        if self._late is None:
            kill()
        killer = threading.Thread(target=self._kill_late, daemon=True)
        killer.start()

    def _kill_late(self) -> None:
        assert self._late is not None
        threading.Event().wait(self._late)
        kill()


def kill() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # no step is made after that


class DyingLog(LmdbEventLog):
    """A log with a place before each commit and one after it, before anybody knows of it."""

    def __init__(self, path: Path, points: Points) -> None:
        super().__init__(path, sync=False)  # that is for machines that die
        self._points = points

    def submit(
        self, stream: str, records: Sequence[Record], done: Any, **options: Unpack[BatchOptions]
    ) -> None:
        """See `EventLog.submit`."""
        name = " + ".join(map(label, records)) or "an index"
        self._points.reach(f"before the commit of {name}")

        def told(outcome: Appended | StorageError) -> None:
            self._points.reach(f"after the commit of {name}")
            done(outcome)

        super().submit(stream, records, told, **options)


def label(record: Record) -> str:
    """Say what a record is."""
    match record.kind:
        case Kind.EVENT:
            return said_by(event_of(record))
        case Kind.CALL_STARTED:
            return f"start of {record.data['tool']}"
        case Kind.CALL_FINISHED:
            return f"end of a call, {record.data['outcome']}"
        case _:
            return str(record.kind).replace("_", " ")


def said_by(event: Event) -> str:
    """Say what an event is."""
    calls, responses = event.function_calls, event.function_responses
    if calls:
        said = "calls " + " ".join(call.name for call in calls)
    elif responses:
        said = "responses of " + " ".join(response.name for response in responses)
    elif event.content is not None:
        said = "text"
    else:
        said = "end" if event.actions.end_of_agent else "checkpoint"
    return f"{event.author}'s {said}"
