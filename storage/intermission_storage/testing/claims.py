"""Claims: who holds a stream, whose tokens count, and when a stream is free again."""

import functools
from collections.abc import Callable

import pytest

from intermission_storage.errors import ClaimedError, ConflictError, StaleClaimError
from intermission_storage.log import EventLog
from intermission_storage.record import Appended, Claim, Head, Owner
from intermission_storage.testing.background import together
from intermission_storage.testing.harness import Base, Harness, entry, events, numbers, rest

__all__ = ["Claims"]


class Claims(Base):
    """See the module."""

    def test_a_claim_gives_a_token_and_names_its_owner(self, log: EventLog, sibling: EventLog) -> None:
        position, token = log.append("s", events(1), claim=True)
        assert position == 1
        assert token is not None
        assert log.head("s") == Head(1, Claim(token, log.owner, alive=True))
        assert sibling.head("s") == log.head("s")

    def test_each_opened_log_is_another_owner(self, harness: Harness, log: EventLog) -> None:
        opened = together([harness.open] * 8)
        owners = [log.owner, *(other.owner for other in opened)]
        assert len({owner.id for owner in owners}) == 9
        for other in opened:
            other.close()

    def test_appends_under_a_claim_carry_its_token(self, log: EventLog) -> None:
        token = _claim(log, "s")
        assert log.append("s", events(1), token=token) == Appended(2, token)
        assert log.append("s", events(2), token=token, expected=2) == Appended(3, token)
        assert numbers(log) == [0, 1, 2]

    def test_a_token_counts_whichever_log_uses_it(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        assert sibling.append("s", events(1), token=token) == Appended(2, token)

    def test_a_claim_at_the_wrong_number_is_refused_and_holds_nothing(self, log: EventLog) -> None:
        log.append("s", events(1))
        with pytest.raises(ConflictError):
            log.append("s", events(2), claim=True, expected=0)
        assert log.head("s") == Head(1, None)

    def test_a_second_claim_is_refused_and_names_who_holds_the_stream(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        _claim(log, "s")
        before = log.head("s")
        for other in (log, sibling):  # also the holder itself
            with pytest.raises(ClaimedError) as refusal:
                other.append("s", events(1), claim=True, put=[entry("a")])
            assert (refusal.value.stream, refusal.value.owner) == ("s", log.owner)
        assert log.head("s") == before
        assert rest(log) == []

    def test_an_append_without_a_token_to_a_held_stream_is_refused(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        _claim(log, "s")
        for other in (log, sibling):
            with pytest.raises(ClaimedError) as refusal:
                other.append("s", events(1), put=[entry("a")])
            assert refusal.value.owner == log.owner
            with pytest.raises(ClaimedError):
                other.append("s", [], release=True)
        assert numbers(log) == [0]
        assert rest(log) == []

    def test_who_does_not_hold_the_stream_is_told_so_before_its_position(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        _claim(log, "s")
        with pytest.raises(ClaimedError):
            sibling.append("s", events(1), expected=7)
        with pytest.raises(ClaimedError):
            sibling.append("s", events(1), expected=7, claim=True)

    def test_the_position_counts_under_a_claim_too(self, log: EventLog) -> None:
        token = _claim(log, "s")
        with pytest.raises(ConflictError):
            log.append("s", events(1), token=token, expected=0)
        assert numbers(log) == [0]

    def test_a_claim_holds_no_other_stream(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        assert sibling.append("t", events(1)) == Appended(1, None)
        assert sibling.append("u", events(1), claim=True).token not in {None, token}
        with pytest.raises(StaleClaimError):
            log.append("t", events(2), token=token)

    @pytest.mark.parametrize("expected", [None, 0, 1])
    def test_a_token_that_was_never_given_is_refused(self, log: EventLog, expected: int | None) -> None:
        with pytest.raises(StaleClaimError) as refusal:
            log.append("s", events(1), token=7, expected=expected)
        assert (refusal.value.stream, refusal.value.token, refusal.value.current) == ("s", 7, None)
        log.append("t", events(1))
        for token in (0, 1, 7):
            with pytest.raises(StaleClaimError):
                log.append("t", events(2), token=token, expected=expected)
        assert log.streams() == ["t"]
        assert numbers(log, "t") == [1]

    def test_a_released_stream_is_free_at_once(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        assert log.append("s", events(1), token=token, release=True) == Appended(2, None)
        assert log.head("s") == Head(2, None)
        assert sibling.append("s", events(2)) == Appended(3, None)
        assert _claim(sibling, "s") > token

    def test_a_release_may_come_without_a_record(self, log: EventLog) -> None:
        token = _claim(log, "s")
        assert log.append("s", [], token=token, release=True) == Appended(1, None)
        assert log.append("s", [], release=True) == Appended(1, None)
        assert log.head("s") == Head(1, None)

    def test_a_claim_may_be_given_up_in_the_commit_that_makes_it(self, log: EventLog) -> None:
        assert log.append("s", events(1), claim=True, release=True) == Appended(1, None)
        assert log.head("s") == Head(1, None)

    def test_a_released_token_is_refused(self, log: EventLog) -> None:
        token = _claim(log, "s")
        log.append("s", [], token=token, release=True)
        with pytest.raises(StaleClaimError) as refusal:
            log.append("s", events(1), token=token)
        assert refusal.value.current is None
        with pytest.raises(StaleClaimError):
            log.append("s", [], token=token, release=True)
        assert numbers(log) == [0]

    def test_a_stale_release_does_not_free_the_next_holder(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        log.append("s", [], token=token, release=True)
        later = _claim(sibling, "s")
        with pytest.raises(StaleClaimError) as refusal:
            log.append("s", [], token=token, release=True)
        assert refusal.value.current == later
        assert log.head("s").claim == Claim(later, sibling.owner, alive=True)

    def test_a_refused_release_frees_nothing(self, log: EventLog) -> None:
        token = _claim(log, "s")
        with pytest.raises(ConflictError):
            log.append("s", events(1), token=token, expected=0, release=True)
        assert log.head("s").claim == Claim(token, log.owner, alive=True)

    def test_a_stream_may_be_taken_from_an_owner_that_lives(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        taken = sibling.append("s", events(1), claim=True, take_over=True)
        assert taken.position == 2
        assert taken.token is not None
        assert taken.token > token
        assert log.head("s").claim == Claim(taken.token, sibling.owner, alive=True)

    def test_a_take_over_of_a_free_stream_is_a_claim(self, log: EventLog) -> None:
        position, token = log.append("s", events(1), claim=True, take_over=True)
        assert position == 1
        assert log.head("s").claim == Claim(token or 0, log.owner, alive=True)

    def test_who_was_taken_over_can_do_nothing_any_more(self, log: EventLog, sibling: EventLog) -> None:
        token = _claim(log, "s")
        later = sibling.append("s", events(1), claim=True, take_over=True).token
        refused: list[Callable[[], object]] = [
            lambda: log.append("s", events(2), token=token),
            lambda: log.append("s", [], token=token, put=[entry("a")]),
            lambda: log.append("s", [], token=token, release=True),
            lambda: log.delete("s", token=token),
        ]
        for call in refused:
            with pytest.raises(StaleClaimError) as refusal:
                call()
            assert (refusal.value.token, refusal.value.current) == (token, later)
        with pytest.raises(ClaimedError):
            log.append("s", events(2))
        assert numbers(log) == [0, 1]
        assert rest(log) == []
        assert sibling.append("s", events(2), token=later, expected=2).position == 3

    @pytest.mark.parametrize("expected", [0, 1, 2, 3])
    def test_a_lost_claim_is_told_before_a_wrong_position(
        self, log: EventLog, sibling: EventLog, expected: int
    ) -> None:
        token = _claim(log, "s")
        sibling.append("s", events(1), claim=True, take_over=True)
        with pytest.raises(StaleClaimError):
            log.append("s", events(2), token=token, expected=expected)

    def test_tokens_only_rise(self, harness: Harness) -> None:
        tokens: list[int] = []
        for _ in range(2):  # over a reopening, too
            with harness.open() as log, harness.open() as other:
                tokens.append(_claim(log, "s"))
                tokens.append(_claim(log, "other"))
                tokens.append(_claim(other, "s", take_over=True))
                other.append("s", [], token=tokens[-1], release=True)
                tokens.append(_claim(log, "s"))
                log.delete("s", token=tokens[-1])
                tokens.append(_claim(log, "s"))
        assert tokens == sorted(set(tokens))

    def test_the_claim_of_a_closed_log_is_free(self, harness: Harness, log: EventLog) -> None:
        with harness.open() as gone:
            token = _claim(gone, "s")
        found = log.head("s").claim
        assert found == Claim(token, gone.owner, alive=False)
        assert log.append("s", events(1)).position == 2
        assert _claim(log, "s") > token

    def test_the_claim_of_a_dead_owner_is_free(self, harness: Harness, log: EventLog) -> None:
        token = harness.claim_and_die("s")
        found = log.head("s").claim
        assert found is not None
        assert (found.token, found.alive) == (token, False)
        assert log.append("s", events(1), expected=1, claim=True, put=[entry("a")]).token not in {None, token}
        with pytest.raises(StaleClaimError):
            log.append("s", events(2), token=token)
        assert numbers(log) == [0, 1]

    def test_a_dead_owners_stream_may_be_appended_to_and_deleted(
        self, harness: Harness, log: EventLog
    ) -> None:
        harness.claim_and_die("s")
        assert log.append("s", events(1), expected=1).position == 2
        assert log.delete("s") is True
        assert log.head("s") == Head(0, None)

    def test_an_append_to_a_dead_owners_stream_is_told_of_no_token(
        self, harness: Harness, log: EventLog
    ) -> None:
        token = harness.claim_and_die("s")
        assert log.append("s", events(1)) == Appended(2, None)
        assert log.append("s", [], put=[entry("a")]) == Appended(2, None)
        assert log.append("s", events(2), token=token) == Appended(3, token)

    def test_a_token_counts_until_another_claim_follows(self, harness: Harness, log: EventLog) -> None:
        token = harness.claim_and_die("s")
        assert log.append("s", events(1), token=token).position == 2
        later = _claim(log, "s")
        with pytest.raises(StaleClaimError):
            log.append("s", events(2), token=token)
        assert log.append("s", events(2), token=later).position == 4

    def test_closing_a_log_frees_no_claim_of_another(
        self, harness: Harness, log: EventLog, sibling: EventLog
    ) -> None:
        token = _claim(log, "s")
        harness.open().close()
        harness.claim_and_die("t")
        assert sibling.head("s").claim == Claim(token, log.owner, alive=True)
        with pytest.raises(ClaimedError):
            sibling.append("s", events(1), claim=True)

    def test_a_claim_outlives_the_closing_of_its_log_as_a_token(self, harness: Harness) -> None:
        with harness.open() as log:
            token = _claim(log, "s")
        with harness.open() as log:
            assert log.append("s", events(1), token=token, expected=1).position == 2
            with pytest.raises(StaleClaimError):
                log.append("s", events(1), token=token + 1)

    def test_of_claims_at_one_moment_one_wins_and_the_others_name_it(self, harness: Harness) -> None:
        logs = [harness.open() for _ in range(16)]
        for stream in "abc":
            outcomes = together([_claimer(log, stream) for log in logs])
            winners = [log.owner for log, won in zip(logs, outcomes, strict=True) if won is None]
            assert len(winners) == 1
            assert {won for won in outcomes if won is not None} == set(winners)
            assert numbers(logs[0], stream) == [0]
        for log in logs:
            log.close()

    def test_of_claims_on_a_dead_owners_stream_one_wins_and_the_others_name_it(
        self, harness: Harness
    ) -> None:
        token = harness.claim_and_die("s")
        logs = [harness.open() for _ in range(16)]
        outcomes = together([_claimer(log, "s") for log in logs])
        (winner,) = [log for log, won in zip(logs, outcomes, strict=True) if won is None]
        assert {won for won in outcomes if won is not None} == {winner.owner}
        with pytest.raises(StaleClaimError):
            winner.append("s", events(1), token=token)
        claim = winner.head("s").claim
        assert claim is not None
        assert winner.append("s", events(1), token=claim.token).position == 3
        for log in logs:
            log.close()

    def test_of_take_overs_at_one_moment_the_last_holds_the_stream(self, harness: Harness) -> None:
        logs = [harness.open() for _ in range(16)]
        _claim(logs[0], "s")
        taken = together([functools.partial(_claim, log, "s", take_over=True) for log in logs])
        assert len(set(taken)) == 16
        last = logs[taken.index(max(taken))]
        assert last.head("s") == Head(17, Claim(max(taken), last.owner, alive=True))
        for token in taken:
            if token != max(taken):
                with pytest.raises(StaleClaimError):
                    last.append("s", events(1), token=token)
        assert last.append("s", events(1), token=max(taken)).position == 18
        for log in logs:
            log.close()


def _claim(log: EventLog, stream: str, *, take_over: bool = False) -> int:
    token = log.append(stream, events(0), claim=True, take_over=take_over).token
    assert token is not None
    return token


def _claimer(log: EventLog, stream: str) -> Callable[[], Owner | None]:
    """Return a call that claims a stream, and returns who has it instead, if somebody has."""

    def claim() -> Owner | None:
        try:
            _claim(log, stream)
        except ClaimedError as refusal:
            return refusal.owner
        return None

    return claim
