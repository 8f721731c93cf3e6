"""What a kill at each commit of a pause leaves behind, and how another process goes on from there."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from apps import KEY
from intermission import Runner, RunStatus
from intermission_storage import LmdbEventLog
from paused_apps import Effects, Elsewhere, app_named, assert_one_of_each, played


class Place(NamedTuple):
    """Where the two processes keep what they share."""

    log: Path
    effects: Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Paths for one test."""
    return Place(tmp_path / "log.lmdb", tmp_path / "effects")


def paused(place: Place, app: str) -> dict[str, dict[str, bool]]:
    """Let a process pause a run and die; return the approval of all that waits."""
    with Elsewhere(*place, app) as child:
        assert child.run()["status"] == "paused"
        answers = {call.id: {"confirmed": True} for call in child.pending()}
        child.kill()
    return answers


@pytest.fixture
def later(place: Place, request: pytest.FixtureRequest) -> Iterator[Runner]:
    """A runner of the same app after that process."""
    effects = Effects(place.effects)
    with (
        LmdbEventLog(place.log, sync=False) as log,
        Runner(app_named(request.param, effects), log=log) as runner,
    ):
        yield runner
        assert_one_of_each(log)


def recovered(runner: Runner) -> list[str]:
    """Go on with all that was left, and return how it ended."""
    runs = runner.recover()
    for run in runs:
        played(run)
    return [str(run.status) for run in runs]


def approve(runner: Runner) -> str:
    """Approve all that waits, and return how the run ended."""
    run = runner.resume(**KEY, answers=[call.approve() for call in runner.pending(**KEY)])
    played(run)
    return str(run.status)


def assert_nothing_waits(runner: Runner) -> None:
    """Assert that there is no run to recover and no call to answer."""
    assert runner.recover() == []
    assert runner.pending(**KEY) == []


# When the question is not stored, the call is asked about again; nobody has been told of the first question.
PAUSES: list[tuple[str, str, bool, list[str]]] = [
    ("sequence", "question", False, ["paused"]),
    ("sequence", "question", True, []),
    ("sequence", "end", False, ["paused"]),
    ("sequence", "end", True, []),
    ("branches", "question", False, ["paused"]),
    ("branches", "question", True, ["paused"]),
    ("branches", "end", False, ["paused"]),
    ("branches", "end", True, []),
    ("hooked", "question", False, ["paused"]),
    ("hooked", "question", True, ["paused"]),
    ("hooked", "end", False, ["paused"]),
    ("hooked", "end", True, []),
]


@pytest.mark.parametrize(("later", "point", "stored", "left"), PAUSES, indirect=["later"])
def test_a_process_that_dies_while_its_run_comes_to_pause_leaves_one_question_that_can_be_answered(
    place: Place, later: Runner, point: str, stored: bool, left: list[str], request: pytest.FixtureRequest
) -> None:
    app = request.node.callspec.params["later"]
    with Elsewhere(*place, app, point, stored=stored) as child:
        child.tell(["run", "s"])
        child.died()
    assert recovered(later) == left
    (call,) = later.pending(**KEY)
    assert (call.tool, call.arguments) == ("pay", {"n": 7})
    assert "pay7" not in Effects(place.effects).all
    assert approve(later) == "completed"
    assert Effects(place.effects).all.count("pay7") == 1
    assert_nothing_waits(later)


# Whether the answer is still waited for, what recovery ends with, and how often the tool was run in the end.
ANSWERS: list[tuple[str, str, bool, bool, list[str], int]] = [
    ("sequence", "answer", False, True, [], 1),
    ("sequence", "answer", True, False, ["completed"], 1),
    ("sequence", "start", False, False, ["completed"], 1),
    ("sequence", "start", True, False, ["completed"], 1),
    ("sequence", "finish", False, False, ["completed"], 2),  # it was made, and nobody knows: at least once
    ("sequence", "finish", True, False, ["completed"], 1),
    ("sequence", "checkpoint", False, False, ["completed"], 1),
    ("sequence", "checkpoint", True, False, ["completed"], 1),
    ("sequence", "end", False, False, ["completed"], 1),
    ("sequence", "end", True, False, [], 1),
    ("hooked", "begin", False, True, [], 1),
    ("hooked", "begin", True, True, ["paused"], 1),  # the answer is not stored before the hook has ended
    ("hooked", "answer", False, True, ["paused"], 1),
    ("hooked", "answer", True, False, ["completed"], 1),
    ("hooked", "end", False, False, ["completed"], 1),
    ("hooked", "end", True, False, [], 1),
]


@pytest.mark.parametrize(
    ("later", "point", "stored", "effects"),
    [(app, point, stored, effects) for app, point, stored, _, _, effects in ANSWERS],
    indirect=["later"],
)
def test_an_answer_that_is_sent_again_to_another_process_goes_on_where_the_first_one_died(
    place: Place, later: Runner, point: str, stored: bool, effects: int, request: pytest.FixtureRequest
) -> None:
    app = request.node.callspec.params["later"]
    answers = paused(place, app)
    with Elsewhere(*place, app, point, stored=stored) as child:
        child.tell(["answer", "s", answers])
        child.died()
    run = later.resume(**KEY, answers=answers)
    played(run)
    assert run.status is RunStatus.COMPLETED
    assert (run.result().last_seq is None) == ((point, stored) == ("end", True))  # then nothing was left
    assert Effects(place.effects).all == ["pay7"] * effects
    again = later.resume(**KEY, answers=answers)
    assert played(again) == []
    assert again.status is RunStatus.COMPLETED
    assert_nothing_waits(later)


@pytest.mark.parametrize(
    ("later", "point", "stored", "waits", "left", "effects"), ANSWERS, indirect=["later"]
)
def test_a_process_that_dies_while_it_goes_on_loses_no_answer_and_uses_none_twice(
    place: Place,
    later: Runner,
    point: str,
    stored: bool,
    waits: bool,
    left: list[str],
    effects: int,
    request: pytest.FixtureRequest,
) -> None:
    app = request.node.callspec.params["later"]
    answers = paused(place, app)
    with Elsewhere(*place, app, point, stored=stored) as child:
        child.tell(["answer", "s", answers])
        child.died()
    assert [call.id for call in later.pending(**KEY)] == (list(answers) if waits else [])
    assert recovered(later) == left
    again = later.resume(**KEY, answers=answers)
    assert bool(played(again)) == waits
    assert again.status is RunStatus.COMPLETED
    assert Effects(place.effects).all == ["pay7"] * effects
    texts = [event.text for event in later.sessions.events(**KEY) if event.text]
    assert texts == ["go", "payer is done", *(["last is done"] if app == "sequence" else [])]
    assert_nothing_waits(later)


@pytest.mark.parametrize("later", ["branches"], indirect=True)
@pytest.mark.parametrize("point", ["question", "end"])
def test_an_answer_goes_on_with_a_run_whose_process_died_before_it_paused(
    place: Place, later: Runner, point: str
) -> None:
    with Elsewhere(*place, "branches", point, stored=point == "question") as child:
        child.tell(["run", "s"])
        child.died()
    assert approve(later) == "completed"
    done = Effects(place.effects).all
    assert done.count("pay7") == 1
    assert "look" in done
    assert "last is done" in [event.text for event in later.sessions.events(**KEY)]
    assert_nothing_waits(later)


# How often the call was begun when it waits at last: a start that nobody has heard the end of is made again.
BEGINNINGS: list[tuple[str, bool, list[str], int]] = [
    ("start", False, ["paused"], 1),
    ("start", True, ["paused"], 1),
    ("finish", False, ["paused"], 2),
    ("finish", True, [], 1),  # in one commit with the end
]


@pytest.mark.parametrize("later", ["order"], indirect=True)
@pytest.mark.parametrize(("point", "stored", "left", "effects"), BEGINNINGS)
def test_a_process_that_dies_while_a_long_running_call_begins_leaves_one_call_that_waits(
    place: Place, later: Runner, point: str, stored: bool, left: list[str], effects: int
) -> None:
    with Elsewhere(*place, "order", point, stored=stored) as child:
        child.tell(["run", "s"])
        child.died()
    assert recovered(later) == left
    (call,) = later.pending(**KEY)
    run = later.resume(**KEY, answers=[call.reply({"v": 1})])
    assert [event.text for event in played(run) if event.text] == ["orders is done"]
    assert run.status is RunStatus.COMPLETED
    assert Effects(place.effects).all == ["order7"] * effects
    assert_nothing_waits(later)
