"""Pauses that two processes look at: answers that meet a run under way or each other, cancels, deletions."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from apps import KEY, records
from intermission import Runner, RunStatus, SessionBusyError, SessionNotFoundError, UnknownCallError
from intermission.runs.receipt import CancelOutcome
from intermission.sessions.records import PENDING
from intermission_storage import IndexEntry, LmdbEventLog, Record
from paused_apps import PATIENCE, Effects, Elsewhere, app_named, assert_one_of_each, played, session
from pools import until
from scale import rounds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a log."""
    return tmp_path / "log.lmdb"


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """The path of what tools did."""
    return tmp_path / "effects"


@pytest.fixture
def app() -> str:
    """The name of the app of both processes; a test may choose another."""
    return "approval"


@pytest.fixture
def other(path: Path, effects: Path, app: str) -> Iterator[Elsewhere]:
    """The first process."""
    with Elsewhere(path, effects, app) as child:
        yield child


@pytest.fixture
def log(path: Path) -> Iterator[LmdbEventLog]:
    """The log, opened in the second process, this one."""
    with LmdbEventLog(path, sync=False) as log:
        yield log


@pytest.fixture
def runner(log: LmdbEventLog, effects: Path, app: str) -> Iterator[Runner]:
    """The runner of the second process."""
    with Runner(app_named(app, Effects(effects)), log=log) as runner:
        yield runner


HELD = pytest.mark.parametrize("app", ["held"])


@HELD
def test_an_answer_waits_for_the_process_whose_run_still_has_another_branch_at_work(
    other: Elsewhere, runner: Runner, log: LmdbEventLog, effects: Path
) -> None:
    other.tell(["run", "s"])
    assert other.hear() == "holding"
    until(lambda: runner.pending(**KEY) != [])  # it waits already, though its run has not paused
    (call,) = runner.pending(**KEY)
    run = runner.resume(**KEY, answers=[call.approve()])
    run.begin()
    assert run.status is None
    assert other.ask("go on")["status"] == "paused"
    assert run.result(PATIENCE).status is RunStatus.COMPLETED
    assert sorted(Effects(effects).all) == ["look", "pay7"]
    assert_one_of_each(log)


@HELD
def test_an_answer_that_has_waited_in_vain_is_refused_by_the_name_of_the_owner_and_can_be_given_again(
    other: Elsewhere, runner: Runner, log: LmdbEventLog, effects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("intermission.sessions.run_opener._PATIENCE", 0.2)
    other.tell(["run", "s"])
    assert other.hear() == "holding"
    until(lambda: runner.pending(**KEY) != [])
    (call,) = runner.pending(**KEY)
    with pytest.raises(SessionBusyError) as busy:
        runner.resume(**KEY, answers=[call.approve()]).start()
    assert busy.value.owner.pid == other.pid
    assert runner.pending(**KEY) == [call]
    assert [record for record in records(log) if record.kind == "answer"] == []
    assert other.ask("go on")["status"] == "paused"
    assert runner.resume(**KEY, answers=[call.approve()]).result(PATIENCE).status is RunStatus.COMPLETED
    assert Effects(effects).all.count("pay7") == 1
    assert_one_of_each(log)


@HELD
def test_an_answer_that_waits_for_another_process_can_be_cancelled_and_leaves_nothing(
    other: Elsewhere, runner: Runner, log: LmdbEventLog
) -> None:
    other.tell(["run", "s"])
    assert other.hear() == "holding"
    until(lambda: runner.pending(**KEY) != [])
    (call,) = runner.pending(**KEY)
    run = runner.resume(**KEY, answers=[call.approve()])
    run.begin()
    run.cancel("changed my mind")
    assert run.result(PATIENCE).status is RunStatus.CANCELLED
    assert other.ask("go on")["status"] == "paused"
    assert runner.pending(**KEY) == [call]
    assert [record for record in records(log) if record.kind == "answer"] == []


@pytest.mark.scenario("C7")
@pytest.mark.parametrize("app", ["two"])
def test_two_calls_that_two_processes_answer_at_once_are_each_made_once(
    path: Path, effects: Path, other: Elsewhere, log: LmdbEventLog
) -> None:
    count = rounds(10, 200)
    with Elsewhere(path, effects, "two") as third:
        for number in range(count):
            (other if number % 2 else third).run(number)  # each has seen some of them before
            first, second = other.pending(number)
            other.tell(["answer", str(number), {first.id: {"confirmed": True}}])
            third.tell(["answer", str(number), {second.id: {"confirmed": True}}])
            ended = sorted(child.hear()["status"] for child in (other, third))
            assert ended == ["completed", "paused"]
            assert_one_of_each(log, number)
    assert sorted(Effects(effects).all) == ["pay7"] * count + ["pay8"] * count


def test_an_answer_counts_in_a_process_that_has_seen_the_session_before_the_pause(
    other: Elsewhere, runner: Runner, log: LmdbEventLog, effects: Path
) -> None:
    # Each has in memory what the session was before the other went on with it.
    played(runner.run(**KEY, message="go"))
    (call,) = runner.pending(**KEY)
    assert other.answer({call.id: {"confirmed": True}})["status"] == "completed"
    by_id = runner.resume(**KEY, invocation_id=call.invocation_id)
    assert played(by_id) == []
    assert by_id.status is RunStatus.COMPLETED
    again = runner.resume(**KEY, answers=[call.approve()])
    assert played(again) == []
    assert again.status is RunStatus.COMPLETED
    assert Effects(effects).all == ["pay7"]
    assert_one_of_each(log)


def test_a_pause_that_another_process_has_made_since_can_be_answered(
    path: Path, runner: Runner, effects: Path
) -> None:
    first = runner.run(**KEY, message="go")
    played(first)
    runner.cancel(**KEY)
    with Elsewhere(path, effects, "two") as child:
        child.run()
        calls = runner.pending(**KEY)
        assert len(calls) == 2
        empty = runner.resume(**KEY, invocation_id=calls[0].invocation_id)
        assert played(empty) == []
        assert empty.status is RunStatus.PAUSED
        run = runner.resume(**KEY, answers=[call.approve() for call in calls])
        played(run)
        assert run.status is RunStatus.COMPLETED
    assert Effects(effects).all == ["pay7", "pay8"]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_cancel_by_key_from_another_process_closes_a_pause(
    other: Elsewhere, runner: Runner, log: LmdbEventLog, effects: Path, by_id: bool
) -> None:
    assert other.run()["status"] == "paused"
    (call,) = other.pending()
    receipt = runner.cancel(**KEY, invocation_id=call.invocation_id if by_id else None, reason="too late")
    assert (receipt.outcome, receipt.durable) == (CancelOutcome.ACCEPTED, True)
    assert runner.pending(**KEY) == other.pending() == []
    with pytest.raises(UnknownCallError, match="cancelled"):
        runner.resume(**KEY, answers=[call.approve()]).start()
    assert other.answer({call.id: {"confirmed": True}})["error"] == "UnknownCallError"
    assert runner.cancel(**KEY).outcome is CancelOutcome.NOTHING_RUNNING
    (run,) = runner.sessions.runs(**KEY)
    assert (run.status, run.reason) == (RunStatus.CANCELLED, "too late")
    assert Effects(effects).all == []
    # On purpose, it can be gone on with.
    again = runner.resume(**KEY, invocation_id=call.invocation_id)
    played(again)
    assert again.status is RunStatus.PAUSED
    answers = {one.id: {"confirmed": True} for one in other.pending()}
    assert other.answer(answers)["status"] == "completed"
    assert Effects(effects).all == ["pay7"]
    assert_one_of_each(log)


def test_a_session_that_is_deleted_while_it_is_paused_leaves_no_pending_call(
    other: Elsewhere, runner: Runner, log: LmdbEventLog, effects: Path
) -> None:
    assert other.run()["status"] == "paused"
    (call,) = other.pending()
    assert runner.sessions.delete(**KEY)
    assert log.index(PENDING) == []
    assert runner.pending(**KEY) == other.pending() == []
    with pytest.raises(SessionNotFoundError):
        runner.resume(**KEY, answers=[call.approve()]).start()
    assert other.answer({call.id: {"confirmed": True}})["error"] == "SessionNotFoundError"
    assert log.streams() == []
    # A session made anew under its name has none of it.
    assert other.run()["status"] == "paused"
    assert other.answer({call.id: {"confirmed": True}})["error"] == "UnknownCallError"
    assert Effects(effects).all == []


@HELD
def test_a_session_that_another_process_is_at_work_in_is_deleted_only_by_taking_it_over(
    other: Elsewhere, runner: Runner, log: LmdbEventLog
) -> None:
    other.tell(["run", "s"])
    assert other.hear() == "holding"
    until(lambda: runner.pending(**KEY) != [])
    (call,) = runner.pending(**KEY)
    with pytest.raises(SessionBusyError):
        runner.sessions.delete(**KEY)
    assert runner.sessions.delete(**KEY, take_over=True)
    assert log.index(PENDING) == []
    assert other.ask("go on")["status"] == "failed"
    assert runner.pending(**KEY) == []
    assert log.streams() == []
    with pytest.raises(SessionNotFoundError):
        runner.resume(**KEY, answers=[call.approve()]).start()


class Counted(LmdbEventLog):
    """A log that counts what is read of it."""

    reads = 0
    entries = 0

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See `EventLog.read`."""
        self.reads += 1
        return super().read(stream, after=after, limit=limit)

    def index(
        self,
        index: str,
        prefix: Iterable[str] = (),
        *,
        after: IndexEntry | None = None,
        limit: int | None = None,
    ) -> list[IndexEntry]:
        """See `EventLog.index`."""
        found = super().index(index, prefix, after=after, limit=limit)
        self.entries += len(found)
        return found


def test_pending_reads_the_entries_of_its_session_and_nothing_else_however_many_sessions_wait(
    path: Path, effects: Path
) -> None:
    count = rounds(200, 10_000)
    with (
        Counted(path, sync=False) as log,
        Runner(app_named("two", Effects(effects)), log=log) as runner,
    ):
        for number in range(count):
            played(runner.run(**session(number), message="go"))
        for name, calls in ((0, 2), (count - 1, 2), ("none", 0)):
            log.reads = log.entries = 0
            assert len(runner.pending(**session(name))) == calls
            assert (log.reads, log.entries) == (0, calls)
        (first, second) = runner.pending(**session(0))
        played(runner.resume(**session(0), answers=[first.approve()]))
        log.reads = log.entries = 0
        assert runner.pending(**session(0)) == [second]
        assert (log.reads, log.entries) == (0, 1)
