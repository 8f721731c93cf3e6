"""Logs that break the contract, each in one way, and the test of the contract that must notice."""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from intermission_storage import (
    Appended,
    ConflictError,
    EncodingError,
    MemoryEventLog,
    Record,
    StaleClaimError,
    StorageError,
)

__all__ = ["FAULTS", "Broken"]

Done = Callable[[Appended | StorageError], None]

_TURN = 0.001  # seconds for another thread to come between


class Broken(MemoryEventLog):
    """A memory log whose `submit` takes all options as they are, for the logs below to change them."""

    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        """See `EventLog.submit`."""
        super().submit(stream, records, done, **options)


FAULTS: list[tuple[type[Broken], str]] = []
"""Each log, and the test that must notice what is wrong with it."""


def _noticed_by(test: str) -> Callable[[type[Broken]], type[Broken]]:
    def add(log: type[Broken]) -> type[Broken]:
        FAULTS.append((log, test))
        return log

    return add


@_noticed_by("test_an_append_at_the_wrong_number_is_refused")
class _ComparesNoNumber(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        super().submit(stream, records, done, **options | {"expected": None})


@_noticed_by("test_a_batch_that_needs_an_entry_is_committed_only_with_that_value_of_its_own_stream")
class _NeedsNoEntry(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        options.pop("needs", None)
        super().submit(stream, records, done, **options)


@_noticed_by("test_of_threads_that_append_at_one_number_one_wins")
class _ComparesTheNumberTooEarly(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        expected, actual = options.pop("expected", None), self.head(stream).position
        if expected in {None, actual}:
            threading.Event().wait(_TURN)
            super().submit(stream, records, done, **options)
        else:
            done(ConflictError(stream, expected=expected, actual=actual))


@_noticed_by("test_what_is_for_other_streams_is_refused_with_its_batch")
class _WritesToOtherStreamsFirst(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        for other, more in options.pop("also", {}).items():
            super().submit(other, more, lambda _: None)
        super().submit(stream, records, done, **options)


@_noticed_by("test_batches_of_many_threads_are_numbered_without_a_gap_and_stay_whole")
class _AppendsRecordByRecord(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        for record in records[:-1]:
            super().submit(stream, [record], lambda _: None, **options)
            threading.Event().wait(_TURN)
        super().submit(stream, records[-1:], done, **options)


@_noticed_by("test_names_that_are_alike_are_different_streams")
class _CutsLongNames(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        super().submit(stream[:511], records, done, **options)


@_noticed_by("test_what_cannot_be_stored_is_refused_by_the_call_and_not_by_done")
class _TellsDoneOfBadValues(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        try:
            super().submit(stream, records, done, **options)
        except EncodingError as error:
            done(error)


@_noticed_by("test_done_is_called_exactly_once_for_each_batch")
class _CallsDoneTwice(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        def twice(outcome: Appended | StorageError) -> None:
            done(outcome)
            done(outcome)

        super().submit(stream, records, twice, **options)


@_noticed_by("test_what_was_submitted_is_committed_before_a_log_is_closed")
class _DropsWhatWaitsWhenItIsClosed(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        submit = super().submit

        def later() -> None:
            threading.Event().wait(_TURN)
            try:
                submit(stream, records, done, **options)
            except StorageError as error:
                done(error)

        threading.Thread(target=later).start()


@_noticed_by("test_a_second_claim_is_refused_and_names_who_holds_the_stream")
class _TakesOverUnasked(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        super().submit(stream, records, done, **options | {"take_over": options.get("claim", False)})


@_noticed_by("test_a_lost_claim_is_told_before_a_wrong_position")
class _LooksAtThePositionFirst(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        expected, actual = options.get("expected"), self.head(stream).position
        if expected in {None, actual}:
            super().submit(stream, records, done, **options)
        else:
            done(ConflictError(stream, expected=expected or 0, actual=actual))


@_noticed_by("test_the_claim_of_a_closed_log_is_free")
class _HoldsItsClaimsForEver(Broken):
    def close(self) -> None:
        owners = set(self._store.owners)
        super().close()
        self._store.owners |= owners


@_noticed_by("test_tokens_only_rise")
class _CountsTokensFromOneAgain(Broken):
    def delete(self, stream: str, **options: Any) -> bool:
        self._store.tokens = itertools.count(1)
        return super().delete(stream, **options)


@_noticed_by("test_nothing_is_left_of_a_deleted_stream")
class _LeavesIndexEntries(Broken):
    def delete(self, stream: str, **options: Any) -> bool:
        entries = dict(self._store.index)
        deleted = super().delete(stream, **options)
        self._store.index.update(entries)
        return deleted


@_noticed_by("test_a_writer_under_way_cannot_write_a_deleted_stream_back")
class _LetsADeletedStreamBeWrittenBack(Broken):
    def submit(self, stream: str, records: Sequence[Record], done: Done, **options: Any) -> None:
        def told(outcome: Appended | StorageError) -> None:
            if isinstance(outcome, StaleClaimError) and outcome.current is None:
                MemoryEventLog.submit(self, stream, records, done)
            else:
                done(outcome)

        super().submit(stream, records, told, **options)


@_noticed_by("test_a_page_holds_the_records_after_a_number")
class _ReadsWholeCommits(Broken):
    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        ends = self._store.streams[stream].lasts if stream in self._store.streams else []
        start = max((end for end in ends if end <= after), default=0)
        return super().read(stream, after=start, limit=limit)


@_noticed_by("test_who_follows_sees_each_commit_of_another_log")
class _SeesItsOwnCommitsOnly(Broken):
    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        if found := self.read(stream, after=after):
            return found
        threading.Event().wait(timeout)
        return self.read(stream, after=after)


@_noticed_by("test_who_follows_a_log_that_is_closed_is_told_so")
class _SaysNothingWhenItIsClosed(Broken):
    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        try:
            return super().follow(stream, after=after, timeout=timeout)
        except StorageError:
            return []
