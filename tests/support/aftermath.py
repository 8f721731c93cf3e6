"""What a life on a `tour` has left in its folder, and what must be true of that."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps import records
from failpoints import Diary
from intermission.sessions.records import event_of
from intermission_storage import Kind, LmdbEventLog, verify
from tour import EFFECTS

__all__ = ["Aftermath", "check_end", "check_life", "look"]


@dataclass(frozen=True)
class Aftermath:
    """What there is after a life.

    Attributes:
        done: How often each call had its effect, by its id.
        ended: The calls whose end is in the log.
        tools: The tool of each call that is in the log.
        told: What the log says that came of each call.
        shown: Ids of the events that were shown, in order.
        stored: Ids of the events in the log.
        status: How each run that has an end ended, in order.
        in_flight: Whether a run has no end.
    """

    done: Counter[str]
    ended: set[str]
    tools: dict[str, str]
    told: dict[str, Any]
    shown: list[str]
    stored: list[str]
    status: list[str]
    in_flight: bool


def look(folder: Path) -> Aftermath:
    """Look into a folder, asserting that the log is sound and holds all that was shown, in its order."""
    diary = Diary(folder)
    with LmdbEventLog(folder / "log", sync=False) as log:
        assert verify(log).problems == ()
        everything = records(log)
    assert [record.seq for record in everything] == list(range(1, len(everything) + 1))
    events = [event_of(record) for record in everything if record.kind == Kind.EVENT]
    responses = [one for event in events for one in event.function_responses]
    finished = [record.data for record in everything if record.kind == Kind.CALL_FINISHED]
    marks = [one.kind for one in everything if one.kind in {Kind.RUN_STARTED, Kind.RUN_ENDED}]
    found = Aftermath(
        done=Counter(line[1] for line in diary.read("effects")),
        ended={one["callId"] for one in finished if one["outcome"] == "finished"}
        | {one.id for one in responses},
        tools={call.id: call.name for event in events for call in event.function_calls},
        told={one.id: dict(one.response) for one in responses},
        shown=diary.read("shown"),
        stored=[event.id for event in events],
        status=[record.data["status"] for record in everything if record.kind == Kind.RUN_ENDED],
        in_flight=marks[-1:] == [Kind.RUN_STARTED],
    )
    assert len(set(found.shown)) == len(found.shown)
    assert [one for one in found.stored if one in set(found.shown)] == found.shown
    return found


def check_life(before: Aftermath, after: Aftermath) -> None:
    """Assert that a life has done what was not done, and at most once more what may not have been done."""
    for call, times in after.done.items():
        assert times - before.done[call] in ({0} if call in before.ended else {0, 1}), after.tools[call]
    assert after.stored[: len(before.stored)] == before.stored


def check_end(before: Aftermath, after: Aftermath, died: str) -> None:
    """Assert that the booking is complete, and that nothing was done again that need not be."""
    assert not after.in_flight, died
    assert after.status[-1] == "completed", died
    check_life(before, after)
    assert after.done.keys() >= before.done.keys(), died
    names = Counter(after.tools[call] for call in after.done)
    assert names == Counter(EFFECTS), f"{died}: each call is one call, whoever makes it"
    for call, times in after.done.items():
        # What may run twice is exactly a call that had begun and whose end is not in the log.
        again = call not in before.ended
        assert times == before.done[call] + again, (died, after.tools[call])
        assert after.told[call] == {"times": times}, died
