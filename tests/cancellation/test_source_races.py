"""Two causes of an end at once, each pair of them: the first one wins, and all who look see the same."""

from itertools import combinations

import pytest

from intermission import RunStatus
from intermission.runs.receipt import CancelOutcome
from intermission_storage import Record
from scale import rounds
from sources_of_ends import ENDS, OWN, SOURCES, Race

ROUNDS = rounds(50, 500)
EACH = ROUNDS // 2  # under each load
ONE_TIMER = {"deadline", "overload"}  # never at once; see below
PAIRS = [pair for pair in combinations(ENDS, 2) if not OWN.issuperset(pair) and set(pair) != ONE_TIMER]
PAIRS.append(("pause", "stop"))  # a run that is to stop may come to its pause before it looks


def assert_one_end(race: Race) -> str:
    """Assert that one of the causes has won and that all who look say so; return which."""
    own = before_a_cancel_behind_the_end(race)
    ends = [record for record in own if record.kind == "run_ended"]
    requests = [record for record in own if record.kind == "cancel_requested"]
    assert (len(ends), own[-1].kind) == (1, "run_ended"), [record.kind for record in own]
    status, source = RunStatus(ends[0].data["status"]), ends[0].data.get("source")
    won = [name for name in race.causes if status in ENDS[name].statuses and source == ENDS[name].source]
    assert won, (race.causes, status, source)
    assert [record.data.get("source") for record in requests] == ([source] if source else [])

    assert {result.status for result in race.results} == {race.run.status} == {status}
    assert {result.last_seq for result in race.results} == {ends[0].seq}
    assert len({result.reason for result in race.results}) == 1
    report = race.run.cancel_report
    if source is not None:
        assert report is not None
        assert report.source == source
    assert report is None or (report.race_winner, report.still_running) == (status, ())
    assert_receipts_say_so(race, status, won)
    return won[0]


def before_a_cancel_behind_the_end(race: Race) -> list[Record]:
    """The run's records up to its end. Behind that an administrator may cancel what can be gone on with."""
    own = race.own_records()
    first = next(place for place, record in enumerate(own) if record.kind == "run_ended")
    open_still = own[first].data["status"] in {RunStatus.PAUSED, RunStatus.INTERRUPTED}
    if open_still and len(own) > first + 1:
        receipt = race.receipts.pop("admin")
        requested, closed = own[first + 1 :]
        assert (requested.kind, closed.kind) == ("cancel_requested", "run_ended")
        assert (closed.data["status"], closed.data["source"]) == ("cancelled", "admin")
        assert (receipt.accepted, receipt.last_seq) == (True, closed.seq)
    return own[: first + 1]


def assert_receipts_say_so(race: Race, status: RunStatus, won: list[str]) -> None:
    """Assert that who cancelled was told the truth, whether that was first or too late."""
    for cause, receipt in race.receipts.items():
        if cause in won:
            assert receipt.accepted
        elif receipt.accepted:  # it ends by an earlier cancel
            assert status is RunStatus.CANCELLED
        else:
            assert receipt.outcome in {
                CancelOutcome.ALREADY_ENDING,
                CancelOutcome.ALREADY_ENDED,
                CancelOutcome.NOTHING_RUNNING,
            }
        assert not receipt.durable or receipt.last_seq == race.results[0].last_seq


@pytest.mark.race
@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_of_two_causes_at_once_one_ends_the_run_and_all_who_look_are_told_the_same(
    pair: tuple[str, str],
) -> None:
    for number in range(EACH):
        race = Race(*(pair if number % 2 else reversed(pair)), after=number % 5)
        with race.runner:
            race.go()
            assert_one_end(race)


@pytest.mark.parametrize("name", ENDS)
def test_each_cause_alone_ends_the_run_as_the_table_says(name: str) -> None:
    race = Race(name)
    with race.runner:
        race.go()
        assert assert_one_end(race) == name


@pytest.mark.race
@pytest.mark.usefixtures("load")
def test_all_seven_sources_at_once_are_one_end() -> None:
    for _ in range(EACH):
        race = Race(*SOURCES)
        with race.runner:
            race.go()
            assert_one_end(race)


@pytest.mark.parametrize(
    ("limit", "wait", "winner"), [(9, 10, "deadline"), (11, 10, "overload"), (10, 10, "deadline")]
)
def test_of_a_deadline_and_an_overload_the_one_whose_time_comes_first_wins(
    limit: float, wait: float, winner: str
) -> None:
    # Both come from the one timer of the runner, so they never meet; of one time, the refusal comes behind.
    race = Race("deadline", "overload", limit=limit, worker_wait=wait)
    with race.runner:
        race.clock.advance(min(limit, wait))
        race.go()
        assert assert_one_end(race) == winner
