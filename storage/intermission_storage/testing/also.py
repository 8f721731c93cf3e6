"""Records for other streams in the same commit: all of a batch or nothing, whoever writes there, too."""

from collections.abc import Callable

import pytest

from intermission_storage.errors import ClaimedError, ConflictError, EncodingError, StaleClaimError
from intermission_storage.log import EventLog
from intermission_storage.record import Appended, Head, Kind, Record
from intermission_storage.testing.background import together
from intermission_storage.testing.harness import Base, Harness, events, numbers

__all__ = ["Also"]


class Also(Base):
    """See the module."""

    def test_a_batch_appends_to_other_streams_in_its_commit(self, log: EventLog) -> None:
        log.append("shared", events("before"))
        outcome = log.append("s", events(1, 2), also={"shared": events("x", "y"), "new": events("z")})
        assert outcome == Appended(2, None)
        assert numbers(log) == [1, 2]
        assert numbers(log, "shared") == ["before", "x", "y"]
        assert numbers(log, "new") == ["z"]
        assert sorted(log.streams()) == ["new", "s", "shared"]

    def test_a_claimed_stream_may_append_to_others_which_stay_free(self, log: EventLog) -> None:
        token = log.append("s", events(1), claim=True, also={"shared": events("x")}).token
        log.append("s", events(2), token=token, release=True, also={"shared": events("y")})
        assert numbers(log, "shared") == ["x", "y"]
        assert log.head("shared") == Head(2)

    def test_what_is_for_other_streams_is_refused_with_its_batch(self, log: EventLog) -> None:
        token = log.append("s", events(1), claim=True).token
        assert token is not None
        with pytest.raises(StaleClaimError):
            log.append("s", events(2), token=token + 1, also={"shared": events("x")})
        with pytest.raises(ConflictError):
            log.append("s", events(2), token=token, expected=7, also={"shared": events("x")})
        assert log.streams() == ["s"]
        log.append("shared", events("y"))
        assert numbers(log, "shared") == ["y"]

    def test_a_stream_that_somebody_holds_refuses_the_whole_batch(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        sibling.append("held", events("x"), claim=True)
        with pytest.raises(ClaimedError) as refusal:
            log.append("s", events(1), claim=True, also={"free": events("y"), "held": events("z")})
        assert refusal.value.stream == "held"
        assert log.streams() == ["held"]
        assert log.head("s") == Head(0)
        assert numbers(log, "held") == ["x"]

    def test_a_stream_whose_holder_is_dead_takes_records_of_others(
        self, log: EventLog, harness: Harness
    ) -> None:
        harness.claim_and_die("held")
        log.append("s", events(1), also={"held": events("y")})
        assert numbers(log, "held") == [0, "y"]

    def test_a_batch_may_be_for_other_streams_only(self, log: EventLog) -> None:
        assert log.append("s", [], also={"shared": events("x")}) == Appended(0, None)
        assert log.streams() == ["shared"]

    def test_a_batch_that_contradicts_itself_is_refused_by_the_call(self, log: EventLog) -> None:
        with pytest.raises(ValueError, match="other streams"):
            log.append("s", events(1), also={"s": events("x")})
        with pytest.raises(ValueError, match="needs records"):
            log.append("s", events(1), also={"shared": []})
        with pytest.raises(EncodingError):
            log.append("s", events(1), also={"shared": [Record(Kind.EVENT, {"bad": object()})]})
        assert log.streams() == []

    def test_deleting_a_stream_leaves_what_its_batches_gave_to_others(self, log: EventLog) -> None:
        log.append("s", events(1), also={"shared": events("x")})
        log.delete("s")
        assert log.streams() == ["shared"]
        log.append("s", events(2), also={"shared": events("y")})
        assert numbers(log, "shared") == ["x", "y"]

    def test_many_streams_append_to_one_and_each_batch_is_whole(self, log: EventLog) -> None:
        def writer(thread: int) -> Callable[[], None]:
            def write() -> None:
                for number in range(25):
                    more = events([thread, number], [thread, number])
                    log.append(f"s{thread}", events(number), also={"shared": more})

            return write

        together([writer(thread) for thread in range(8)])
        written = numbers(log, "shared")
        assert written[::2] == written[1::2]
        for thread in range(8):
            assert numbers(log, f"s{thread}") == list(range(25))
            assert [one for one in written[::2] if one in [[thread, n] for n in range(25)]] == [
                [thread, n] for n in range(25)
            ]
