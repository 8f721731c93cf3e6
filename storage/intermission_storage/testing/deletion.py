"""What is left of a deleted stream, which is nothing, and who may delete it."""

import pytest

from intermission_storage.errors import ClaimedError, ConflictError, StaleClaimError
from intermission_storage.log import EventLog
from intermission_storage.record import Appended, Head
from intermission_storage.testing.harness import Base, Harness, entry, events, numbers, rest

__all__ = ["Deletion"]


class Deletion(Base):
    """See the module."""

    def test_nothing_is_left_of_a_deleted_stream(self, log: EventLog, sibling: EventLog) -> None:
        log.append("s", events(1, 2), put=[entry("a"), entry("b", index="j"), entry("a", "b")])
        log.append("s", events(3), put=[entry("c")], drop=[entry("a")])
        assert log.delete("s") is True
        for other in (log, sibling):
            assert other.read("s") == []
            assert other.head("s") == Head(0, None)
            assert other.streams() == []
            assert rest(other, "i") == []
            assert rest(other, "j") == []

    def test_deleting_a_stream_touches_no_other(self, log: EventLog) -> None:
        for stream in ("r", "s", "t"):
            log.append(stream, events(1, 2), put=[entry(stream)])
        log.delete("s")
        assert sorted(log.streams()) == ["r", "t"]
        assert numbers(log, "r") == numbers(log, "t") == [1, 2]
        assert rest(log) == [(("r",), None, "r"), (("t",), None, "t")]

    def test_deleting_an_unknown_stream_does_nothing(self, log: EventLog) -> None:
        assert log.delete("unknown") is False
        log.append("s", events(1))
        assert log.delete("s") is True
        assert log.delete("s") is False

    def test_the_name_of_a_deleted_stream_is_free_and_its_numbers_begin_anew(self, log: EventLog) -> None:
        log.append("s", events(1, 2, 3), put=[entry("a", value=1)])
        log.delete("s")
        assert log.append("s", events(4), expected=0) == Appended(1, None)
        assert numbers(log) == [4]
        assert log.streams() == ["s"]
        assert rest(log) == []

    def test_a_writer_under_way_cannot_write_a_deleted_stream_back(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        token = log.append("s", events(1), claim=True).token
        assert token is not None
        assert sibling.delete("s", take_over=True) is True
        for expected in (None, 0, 1):
            with pytest.raises(StaleClaimError) as refusal:
                log.append("s", events(2), token=token, expected=expected)
            assert refusal.value.current is None
        assert log.streams() == []
        later = sibling.append("s", events(3), claim=True).token
        assert later is not None
        assert later > token
        with pytest.raises(StaleClaimError):
            log.append("s", events(2), token=token)
        assert numbers(log) == [3]

    def test_a_writer_without_a_claim_sees_at_the_position_that_its_stream_is_gone(
        self, log: EventLog
    ) -> None:
        log.append("s", events(1))
        log.delete("s")
        with pytest.raises(ConflictError) as refusal:
            log.append("s", events(2), expected=1)
        assert refusal.value.actual == 0
        assert log.streams() == []

    def test_a_held_stream_is_deleted_by_its_holder_or_on_purpose_only(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        token = log.append("s", events(1), claim=True).token
        assert token is not None
        for other in (log, sibling):
            with pytest.raises(ClaimedError) as refusal:
                other.delete("s")
            assert (refusal.value.stream, refusal.value.owner) == ("s", log.owner)
        with pytest.raises(StaleClaimError):
            log.delete("s", token=token + 1)
        assert numbers(log) == [1]
        assert log.delete("s", token=token) is True
        assert log.streams() == []

    def test_a_token_is_not_replaced_by_a_take_over(self, log: EventLog, sibling: EventLog) -> None:
        token = log.append("s", events(1), claim=True).token
        sibling.append("s", events(2), claim=True, take_over=True)
        with pytest.raises(StaleClaimError):
            log.delete("s", token=token, take_over=True)
        assert numbers(log) == [1, 2]

    def test_deletion_and_fencing_survive_a_reopening(self, harness: Harness) -> None:
        with harness.open() as log:
            token = log.append("s", events(1), claim=True, put=[entry("a")]).token
            assert token is not None
            log.delete("s", token=token)
        with harness.open() as log:
            assert log.streams() == []
            assert rest(log) == []
            with pytest.raises(StaleClaimError):
                log.append("s", events(2), token=token)
            later = log.append("s", events(2), claim=True).token
            assert later is not None
            assert later > token

    def test_a_stream_of_index_entries_only_is_something_to_delete(self, log: EventLog) -> None:
        log.append("s", [], put=[entry("a")])
        assert log.delete("s") is True
        assert rest(log) == []
        assert log.delete("s") is False

    def test_a_deletion_comes_after_what_was_submitted_before_it(self, log: EventLog) -> None:
        outcomes: list[object] = []
        for number in range(50):
            log.submit("s", events(number), outcomes.append, put=[entry(str(number))])
        assert log.delete("s") is True
        assert outcomes == [Appended(number, None) for number in range(1, 51)]
        assert log.streams() == []
        assert rest(log) == []
