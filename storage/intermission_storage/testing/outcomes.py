"""`submit` and its `done`, batches that mean nothing, and closing."""

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from intermission_storage.errors import ConflictError, LogClosedError, StorageError
from intermission_storage.log import EventLog
from intermission_storage.record import Appended
from intermission_storage.testing.background import PATIENCE, Background, together
from intermission_storage.testing.harness import Base, Harness, entry, event, events, numbers

__all__ = ["Outcomes"]

_Outcome = Appended | StorageError


class _Collector:
    """A `done` that keeps what it is called with; `wait` returns it once there are as many as expected."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._outcomes: list[_Outcome] = []

    def __call__(self, outcome: _Outcome) -> None:
        with self._arrived:
            self._outcomes.append(outcome)
            self._arrived.notify_all()

    def wait(self, count: int) -> list[_Outcome]:
        with self._arrived:
            enough = self._arrived.wait_for(lambda: len(self._outcomes) >= count, PATIENCE)
            assert enough, f"done was called {len(self._outcomes)} of {count} times within {PATIENCE} s"
            return list(self._outcomes)


class Outcomes(Base):
    """See the module."""

    def test_done_is_told_what_the_commit_came_to(self, log: EventLog) -> None:
        done = _Collector()
        log.submit("s", events(1, 2), done, claim=True)
        (outcome,) = done.wait(1)
        assert isinstance(outcome, Appended)
        assert outcome.position == 2
        assert log.head("s").claim is not None
        log.submit("s", events(3), done, token=outcome.token, release=True)
        assert done.wait(2)[1] == Appended(3, None)

    def test_done_is_told_why_the_commit_was_refused(self, log: EventLog) -> None:
        done = _Collector()
        log.submit("s", events(1), done, expected=7)
        (outcome,) = done.wait(1)
        assert isinstance(outcome, ConflictError)
        assert outcome.actual == 0

    def test_what_done_is_told_of_can_be_read(self, log: EventLog, sibling: EventLog) -> None:
        seen: list[list[object]] = []
        told = _Collector()

        def done(outcome: _Outcome) -> None:
            seen.append(numbers(log))
            seen.append(numbers(sibling))
            told(outcome)

        log.submit("s", events(1), done)
        told.wait(1)
        assert seen == [[1], [1]]

    def test_batches_of_a_stream_are_committed_in_the_order_of_their_submission(self, log: EventLog) -> None:
        done = _Collector()
        for number in range(100):
            log.submit("s", [event(number)], done, expected=number)
            log.submit("t", [event(number)], done)
        assert all(isinstance(outcome, Appended) for outcome in done.wait(200))
        assert numbers(log, "s") == numbers(log, "t") == list(range(100))

    def test_done_is_called_exactly_once_for_each_batch(self, harness: Harness) -> None:
        done = [_Collector() for _ in range(60)]
        with harness.open() as log:
            for number, collector in enumerate(done):
                log.submit(f"s{number % 3}", events(number), collector, expected=None if number % 2 else 0)
        # A closed log has reported everything, so a second call would be here, too.
        assert [len(collector.wait(1)) for collector in done] == [1] * 60

    def test_a_refused_batch_harms_no_other(self, log: EventLog) -> None:
        done = _Collector()
        for number in range(30):
            log.submit(f"s{number % 3}", events(number), done, expected=7 if number % 3 == 1 else None)
        outcomes = done.wait(30)
        assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 10
        assert numbers(log, "s0") == list(range(0, 30, 3))
        assert numbers(log, "s1") == []
        assert numbers(log, "s2") == list(range(2, 30, 3))

    @pytest.mark.parametrize("error", [ValueError, SystemExit])
    def test_what_done_raises_is_logged_and_harms_nobody(
        self, log: EventLog, error: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_: _Outcome) -> None:
            raise error("raised by a done")

        done = _Collector()
        with caplog.at_level(logging.ERROR):
            log.submit("s", events(1), fail)
            log.submit("s", events(2), done)
            log.submit("s", events(3), fail, expected=7)
            log.submit("t", events(4), done)
            assert done.wait(2) == [Appended(2, None), Appended(1, None)]
        assert Background(lambda: log.append("s", events(5))).result() == Appended(3, None)
        assert sum("raised by a done" in (record.exc_text or "") for record in caplog.records) == 2

    def test_done_may_submit_again(self, log: EventLog) -> None:
        last = _Collector()

        def again(outcome: _Outcome) -> None:
            assert isinstance(outcome, Appended)
            following = last if outcome.position == 99 else again
            log.submit("s", [event(outcome.position)], following)

        log.submit("s", [event(0)], again)
        assert last.wait(1) == [Appended(100, None)]
        assert numbers(log) == list(range(100))

    def test_a_batch_that_does_nothing_is_an_error(self, log: EventLog) -> None:
        _refused(log, [])
        assert log.streams() == []

    def test_a_claim_without_a_record_is_an_error(self, log: EventLog) -> None:
        _refused(log, [], claim=True, put=[entry("a")])
        assert log.index("i") == []

    def test_a_claim_with_a_token_is_an_error(self, log: EventLog) -> None:
        token = log.append("s", events(1), claim=True).token
        _refused(log, events(2), claim=True, token=token)
        assert numbers(log) == [1]

    def test_a_take_over_that_claims_nothing_is_an_error(self, log: EventLog) -> None:
        _refused(log, events(1), take_over=True)
        assert log.streams() == []

    def test_a_closed_log_refuses_every_call(self, harness: Harness) -> None:
        log, done = harness.open(), _Collector()
        log.append("s", events(1), put=[entry("a")])
        log.close()
        calls: list[Callable[[], object]] = [
            lambda: log.submit("s", events(2), done),
            lambda: log.append("s", events(2)),
            lambda: log.delete("s"),
            lambda: log.read("s"),
            lambda: log.follow("s", timeout=PATIENCE),
            lambda: log.head("s"),
            lambda: log.streams(),
            lambda: log.index("i"),
        ]
        for call in calls:
            with pytest.raises(LogClosedError):
                Background(call).result()
        assert done.wait(0) == []
        with harness.open() as log:
            assert numbers(log) == [1]

    def test_closing_twice_or_at_once_is_allowed(self, harness: Harness) -> None:
        log = harness.open()
        together([log.close] * 8)
        log.close()

    def test_a_block_closes_its_log(self, harness: Harness) -> None:
        with harness.open() as log:
            log.append("s", events(1))
        with pytest.raises(LogClosedError):
            log.read("s")

    def test_closing_leaves_the_other_logs_open(self, harness: Harness, log: EventLog) -> None:
        harness.open().close()
        assert log.append("s", events(1)).position == 1

    def test_what_was_submitted_is_committed_before_a_log_is_closed(
        self, harness: Harness, log: EventLog
    ) -> None:
        done = _Collector()
        closing = harness.open()
        for number in range(100):
            closing.submit("s", [event(number)], done)
        closing.close()
        assert done.wait(0) == [Appended(number, None) for number in range(1, 101)]
        assert numbers(log) == list(range(100))

    def test_a_log_may_be_closed_while_threads_use_it(self, harness: Harness) -> None:
        log = harness.open()
        at_work = threading.Barrier(9, timeout=PATIENCE)

        def use(stream: str) -> int:
            appended = 0
            try:
                while True:
                    log.append(stream, [event(appended)])
                    appended += 1
                    assert len(log.read(stream)) == appended
                    if appended == 3:
                        at_work.wait()
            except LogClosedError:
                return appended

        users = [Background(functools.partial(use, f"s{number}")) for number in range(8)]
        at_work.wait()
        log.close()
        used = [user.result() for user in users]
        with harness.open() as log:
            # The last append may have been committed and its reading have come too late, never the reverse.
            assert [len(numbers(log, f"s{number}")) for number in range(8)] == used
            assert min(used) >= 3


def _refused(log: EventLog, records: Any, **options: Any) -> None:
    """Check that a batch is refused as a mistake of the caller, at once and not by `done`."""
    done = _Collector()
    for call in (functools.partial(log.submit, done=done), log.append):
        with pytest.raises(ValueError, match=r"\S"):
            call("s", records, **options)
    assert done.wait(0) == []
