"""Pages of a stream, the names of the streams, and following what is committed."""

import functools

import pytest

from intermission_storage.errors import LogClosedError
from intermission_storage.log import EventLog
from intermission_storage.record import Record
from intermission_storage.testing.background import PATIENCE, Background
from intermission_storage.testing.harness import Base, Harness, event, events, numbers

__all__ = ["Reading"]

# Far longer than a test waits: what has to come at once comes before it, or the test fails.
_LONG = 4 * PATIENCE


class Reading(Base):
    """See the module."""

    @pytest.mark.parametrize("sizes", [(6,), (1, 1, 1, 1, 1, 1), (1, 4, 1), (3, 3)])
    @pytest.mark.parametrize("limit", [None, 0, 1, 2, 5, 6, 7, 2**40])
    def test_a_page_holds_the_records_after_a_number(
        self, log: EventLog, sizes: tuple[int, ...], limit: int | None
    ) -> None:
        for stream in ("r", "s", "t"):
            for size in sizes:
                first = log.head(stream).position + 1
                log.append(stream, events(*range(first, first + size)))
        for after in (0, 1, 2, 4, 5, 6, 7, 2**40):
            end = 6 if limit is None else min(6, after + limit)
            page = log.read("s", after=after, limit=limit)
            assert [record.seq for record in page] == list(range(after + 1, end + 1))
            assert [record.data["number"] for record in page] == list(range(after + 1, end + 1))

    def test_pages_put_together_are_the_stream(self, log: EventLog) -> None:
        for size in (5, 1, 4, 2):
            log.append("s", events(*range(size)))
        pages: list[Record] = []
        while page := log.read("s", after=len(pages), limit=3):
            pages += page
        assert len(pages) == 12
        assert pages == log.read("s")

    @pytest.mark.parametrize("bounds", [{"after": -1}, {"limit": -1}])
    def test_a_page_with_negative_bounds_is_an_error(self, log: EventLog, bounds: dict[str, int]) -> None:
        log.append("s", events(1, 2))
        with pytest.raises(ValueError, match="-1"):
            log.read("s", **bounds)

    def test_the_names_of_the_streams_come_in_pages_of_one_order(self, log: EventLog) -> None:
        names = [f"stream {number}" for number in range(10)]
        for name in names:
            log.append(name, events(1))
        whole = log.streams()
        assert sorted(whole) == names
        assert log.streams() == whole
        assert log.streams(limit=0) == []
        pages: list[str] = []
        while page := log.streams(after=pages[-1] if pages else None, limit=3):
            pages += page
        assert pages == whole

    def test_the_next_page_of_streams_begins_behind_one_that_is_gone(self, log: EventLog) -> None:
        for name in "abcde":
            log.append(name, events(1))
        whole = log.streams()
        log.delete(whole[1])
        assert log.streams(after=whole[1]) == whole[2:]

    def test_a_page_of_streams_with_a_negative_limit_is_an_error(self, log: EventLog) -> None:
        with pytest.raises(ValueError, match="-1"):
            log.streams(limit=-1)

    def test_records_that_are_there_are_followed_at_once(self, log: EventLog) -> None:
        log.append("s", events(1, 2, 3))
        found = Background(lambda: log.follow("s", after=1, timeout=_LONG)).result()
        assert [record.seq for record in found] == [2, 3]

    def test_following_ends_with_nothing_after_its_timeout(self, log: EventLog) -> None:
        log.append("s", events(1))
        assert Background(lambda: log.follow("s", after=1, timeout=0.01)).result() == []
        assert Background(lambda: log.follow("unknown", timeout=0)).result() == []

    def test_who_follows_sees_each_commit_of_the_same_log(self, log: EventLog) -> None:
        _follow(log, log)

    def test_who_follows_sees_each_commit_of_another_log(self, log: EventLog, sibling: EventLog) -> None:
        _follow(log, sibling)

    def test_who_follows_does_not_return_for_a_commit_to_another_stream(self, log: EventLog) -> None:
        for number in range(20):
            following = Background(functools.partial(log.follow, "s", after=number, timeout=_LONG))
            log.append("t", events(1))
            log.append("t", events(2))
            log.append("s", [event(number)])
            assert [record.data["number"] for record in following.result()] == [number]

    def test_following_without_a_timeout_waits_for_a_commit(self, log: EventLog) -> None:
        following = Background(lambda: log.follow("s"))
        log.append("s", events(1))
        assert [record.seq for record in following.result()] == [1]

    def test_followers_that_join_under_way_get_each_record_once_and_in_order(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        def write() -> None:
            for number in range(100):
                log.append("s", events(number, number))

        def follow(reader: EventLog, after: int) -> list[int]:
            seen: list[int] = []
            while after < 200:
                found = reader.follow("s", after=after, timeout=_LONG)
                seen += [record.seq for record in found]
                after = seen[-1]
            return seen

        writing = Background(write)
        starts = [0, 0, 50, 99, 150]
        following = [
            Background(functools.partial(follow, reader, start))
            for reader in (log, sibling)
            for start in starts
        ]
        writing.result()
        for background, start in zip(following, starts * 2, strict=True):
            assert background.result() == list(range(start + 1, 201))

    def test_who_follows_again_after_a_reopening_gets_what_was_committed_meanwhile(
        self, harness: Harness
    ) -> None:
        with harness.open() as log:
            log.append("s", events(1, 2))
            assert len(log.follow("s", timeout=_LONG)) == 2
        with harness.open() as other:
            other.append("s", events(3))
        with harness.open() as log:
            following = Background(lambda: log.follow("s", after=2, timeout=_LONG))
            assert [record.data["number"] for record in following.result()] == [3]

    def test_who_follows_a_log_that_is_closed_is_told_so(self, harness: Harness) -> None:
        log = harness.open()
        with harness.open() as sibling:
            log.append("s", events(1))
            following = [Background(lambda: log.follow("s", after=1, timeout=_LONG)) for _ in range(4)]
            log.close()
            for background in following:
                with pytest.raises(LogClosedError):
                    background.result()
            assert numbers(sibling) == [1]


def _follow(reader: EventLog, writer: EventLog) -> None:
    """Check that a reader sees each of many commits, most of them while it waits."""
    for number in range(20):
        following = Background(functools.partial(reader.follow, "s", after=number, timeout=_LONG))
        writer.append("s", [event(number)])
        (found,) = following.result()
        assert (found.seq, found.data["number"]) == (number + 1, number)
