"""A real process is killed at every place of a workflow, and at random moments; another one goes on.

What is told of it stands as a table in `docs/resumption.md`.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aftermath import check_end, check_life, look
from failpoints import Diary
from nursery import KILLED, Nursery
from scale import is_long, rounds
from tour import EFFECTS

KILLS = rounds(20, 200)
LATE = 0.004  # seconds that a process at most goes on while it is being killed

BEGINNING = "before the commit of end of a call, finished + start of charge #1"
BEGUN = "after the commit of end of a call, finished + start of charge #1"
BEFORE = "before the effect of charge #1"
AFTER = "after the effect of charge #1"
ENDING = "before the commit of end of a call, finished + planner's responses of reserve charge #1"
ENDED = "after the commit of end of a call, finished + planner's responses of reserve charge #1"

_ONCE = (1, {"times": 1})
_TWICE = (2, {"times": 2})
_UNKNOWN = {
    "status": "unknown",
    "outcome": "unknown",
    "message": "The run ended before this call was answered. It may or may not have had its effect.",
}

TABLE: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {
    # Where the process died: by the tool's `on_resume`, how often its effect happened, and what is told.
    BEGINNING: {"rerun": _ONCE, "ask": _ONCE, "fail": _ONCE, "look up": _ONCE},
    BEGUN: {"rerun": _ONCE, "ask": _ONCE, "fail": (0, _UNKNOWN), "look up": _ONCE},
    BEFORE: {"rerun": _ONCE, "ask": _ONCE, "fail": (0, _UNKNOWN), "look up": _ONCE},
    AFTER: {"rerun": _TWICE, "ask": _TWICE, "fail": (1, _UNKNOWN), "look up": (1, {"found": 1})},
    ENDING: {"rerun": _TWICE, "ask": _TWICE, "fail": (1, _UNKNOWN), "look up": (1, {"found": 1})},
    ENDED: {"rerun": _ONCE, "ask": _ONCE, "fail": _ONCE, "look up": _ONCE},
}


@pytest.mark.scenario("C4", "C9", "C12", "F6")
def test_what_happens_again_depends_on_where_the_process_died_and_on_what_the_tool_says(
    nursery: Nursery, tmp_path: Path
) -> None:
    for number, (place, row) in enumerate(TABLE.items()):
        for policy, (effects, told) in row.items():
            folder = tmp_path / f"{number} {policy}"
            folder.mkdir()
            assert nursery.live("tour", folder, die=place, on_resume=policy) == KILLED, place
            look(folder)
            assert nursery.live("tour", folder, on_resume=policy) == 0
            after, diary = look(folder), Diary(folder)
            assert Counter(line[0] for line in diary.read("effects"))["charge"] == effects, (place, policy)
            asked = [responses for name, responses in diary.read("asked") if name == "planner" and responses]
            assert asked[-1][1] == told, (place, policy)
            reserved = 2 if place == BEGINNING else 1  # its end was to come with the beginning of the charge
            assert asked[-1][0] == {"times": reserved}
            asks = policy == "ask" and place in {BEGUN, BEFORE, AFTER, ENDING}
            assert after.status == ["paused", *["paused"] * asks, "completed"]


@pytest.mark.scenario("C9", "C12", "E14")
def test_a_process_that_is_killed_at_any_place_leaves_what_another_goes_on_with(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    assert nursery.live("tour", tmp_path / "whole") == 0
    places = Diary(tmp_path / "whole").read("points")
    assert sorted(line[0] for line in Diary(tmp_path / "whole").read("effects")) == sorted(EFFECTS)
    assert len(places) == len(set(places)) > 150
    if not is_long():
        places = [place for place in places if "shown" not in place]  # in the other thread, beside these
    twice: Counter[str] = Counter()
    for number, place in enumerate(places):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert nursery.live("tour", folder, die=place) == KILLED, place
        before = look(folder)
        assert nursery.live("tour", folder) == 0, place
        after = look(folder)
        check_end(before, after, place)
        twice.update(after.tools[call] for call, times in after.done.items() if times == 2)
    assert twice.keys() == set(EFFECTS)
    assert all(times >= 2 for times in twice.values())


@pytest.mark.scenario("E14")
def test_a_booking_whose_process_is_killed_again_and_again_loses_nothing_that_was_shown(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance, kills, bookings, shown = random.Random(11), 0, 0, 0
    while kills < KILLS:
        folder = tmp_path / str(bookings)
        folder.mkdir()
        bookings += 1
        before = None
        for _ in range(3):  # as often as `recover` goes on with it
            code = nursery.live("tour", folder, die=chance.randint(5, 70), late=chance.random() * LATE)
            found = look(folder)
            if before is not None:
                check_life(before, found)
            if code == KILLED:
                before = found
                kills += found.in_flight
        assert nursery.live("tour", folder) == 0
        after = look(folder)
        assert before is not None
        check_end(before, after, "at random")
        shown += len(after.shown)
    assert shown > 20 * bookings
