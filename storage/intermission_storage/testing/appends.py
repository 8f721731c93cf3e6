"""Numbers, positions and batches: what an append does, and what it does not do when it is refused."""

import itertools
from collections.abc import Callable

import pytest

from intermission_storage.errors import ConflictError
from intermission_storage.log import EventLog
from intermission_storage.record import Appended, Kind, Record
from intermission_storage.testing.background import together
from intermission_storage.testing.harness import Base, Harness, entry, event, events, numbers, rest

__all__ = ["Appends"]

# Texts that a key of a store may not be made of as they are: empty, not ASCII, with bytes that end or
# separate, that are no Unicode, too long, alike in their first 511 bytes, or equal when normalized.
_NAMES = [
    *("", " ", "\0", "a\0b", "a/b", "a:b", "..", "é", "e\u0301", "𝄞", "\ud800", "\udfff\ud800"),
    *("x" * 511, "x" * 511 + "a", "x" * 511 + "b", "y" * 10_000, "y" * 9_999 + "z"),
]


class Appends(Base):
    """See the module."""

    def test_records_are_numbered_from_one_in_their_order(self, log: EventLog) -> None:
        assert log.append("s", events(1, 2)) == Appended(2, None)
        assert log.append("s", events(3)) == Appended(3, None)
        assert log.read("s") == [Record(Kind.EVENT, {"number": seq}, seq) for seq in (1, 2, 3)]
        assert log.head("s").position == 3

    def test_the_number_that_a_record_brings_along_is_ignored(self, log: EventLog) -> None:
        log.append("s", [Record(Kind.EVENT, {}, seq=99)])
        assert [record.seq for record in log.read("s")] == [1]

    def test_streams_are_numbered_apart(self, log: EventLog) -> None:
        log.append("a", events(1, 2, 3))
        log.append("b", events(1))
        assert log.append("b", events(2)).position == 2
        assert (log.head("a").position, log.head("b").position) == (3, 2)
        assert numbers(log, "b") == [1, 2]

    def test_an_unknown_stream_is_empty_and_stays_unknown(self, log: EventLog) -> None:
        assert log.read("unknown") == []
        assert log.head("unknown").position == 0
        assert log.head("unknown").claim is None
        assert log.streams() == []

    def test_every_kind_of_record_comes_back_as_it_was(self, log: EventLog) -> None:
        log.append("s", [Record(kind, {}) for kind in Kind])
        assert [record.kind for record in log.read("s")] == list(Kind)
        assert {type(record.kind) for record in log.read("s")} == {Kind}

    @pytest.mark.parametrize("expected", [0, 1, 3])
    def test_an_append_at_the_wrong_number_is_refused(self, log: EventLog, expected: int) -> None:
        log.append("s", events(1, 2))
        with pytest.raises(ConflictError) as refusal:
            log.append("s", events(3), expected=expected)
        assert (refusal.value.stream, refusal.value.expected, refusal.value.actual) == ("s", expected, 2)
        assert numbers(log) == [1, 2]

    def test_an_append_at_the_right_number_is_taken(self, log: EventLog) -> None:
        assert log.append("s", events(1, 2), expected=0).position == 2
        assert log.append("s", events(3), expected=2).position == 3

    def test_a_refused_append_spends_no_number_and_leaves_no_stream(self, log: EventLog) -> None:
        with pytest.raises(ConflictError):
            log.append("s", events(1), expected=1)
        assert log.streams() == []
        assert log.append("s", events(1), expected=0).position == 1

    def test_a_refused_append_leaves_no_index_entry_and_no_claim(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("kept", value=1), entry("gone")])
        log.append("s", events(2), drop=[entry("gone")])
        with pytest.raises(ConflictError):
            log.append(
                "s",
                events(3),
                expected=7,
                claim=True,
                put=[entry("kept", value=2), entry("new")],
                drop=[entry("kept")],
            )
        assert rest(log) == [(("kept",), 1, "s")]
        assert log.head("s").claim is None
        assert numbers(log) == [1, 2]

    def test_another_log_sees_what_was_appended_and_goes_on_from_there(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        log.append("s", events(1))
        assert numbers(sibling) == [1]
        assert sibling.append("s", events(2), expected=1).position == 2
        with pytest.raises(ConflictError):
            log.append("s", events(3), expected=1)
        assert numbers(log) == [1, 2]

    def test_records_and_index_entries_are_there_after_a_reopening(self, harness: Harness) -> None:
        with harness.open() as log:
            log.append("s", events(1, 2), put=[entry("a", value=1)])
        with harness.open() as log:
            assert numbers(log) == [1, 2]
            assert rest(log) == [(("a",), 1, "s")]
            assert log.append("s", events(3), expected=2).position == 3

    @pytest.mark.parametrize("index", range(len(_NAMES)))
    def test_any_text_is_the_name_of_a_stream(self, log: EventLog, index: int) -> None:
        name = _NAMES[index]
        log.append(name, events(1), put=[entry("a")])
        assert log.streams() == [name]
        assert numbers(log, name) == [1]
        assert rest(log) == [(("a",), None, name)]

    def test_names_that_are_alike_are_different_streams(self, log: EventLog) -> None:
        for number, name in enumerate(_NAMES):
            log.append(name, events(number), expected=0)
        assert sorted(log.streams()) == sorted(_NAMES)
        assert [numbers(log, name) for name in _NAMES] == [[number] for number in range(len(_NAMES))]

    def test_what_was_appended_or_read_is_not_tied_to_the_log(self, log: EventLog) -> None:
        items: list[object] = [1]
        log.append("s", [Record(Kind.EVENT, {"items": items})], put=[entry("a", value=items)])
        items.append(2)
        log.read("s")[0].data["items"].append(3)
        log.index("i")[0].value["value"].append(3)
        assert log.read("s")[0].data == {"items": [1]}
        assert log.index("i")[0].value == {"value": [1]}

    def test_batches_of_many_threads_are_numbered_without_a_gap_and_stay_whole(self, log: EventLog) -> None:
        def writer(thread: int) -> Callable[[], list[int]]:
            return lambda: [
                log.append("s", events([thread, number], [thread, number])).position for number in range(25)
            ]

        positions = together([writer(thread) for thread in range(8)])
        records = log.read("s")
        assert [record.seq for record in records] == list(range(1, 401))
        assert all(one.data == two.data for one, two in zip(records[::2], records[1::2], strict=True))
        assert sorted(itertools.chain(*positions)) == list(range(2, 401, 2))
        for thread, ends in enumerate(positions):
            written = [records[end - 1].data["number"] for end in ends]
            assert written == [[thread, number] for number in range(25)]

    def test_of_threads_that_append_at_one_number_one_wins(self, log: EventLog) -> None:
        def racer(thread: int, expected: int) -> Callable[[], bool]:
            def race() -> bool:
                try:
                    log.append("s", [event(thread)], expected=expected)
                except ConflictError as refusal:
                    assert refusal.actual == expected + 1  # noqa: PT017 - both outcomes are looked at
                    return False
                return True

            return race

        for expected in range(10):
            won = together([racer(thread, expected) for thread in range(8)])
            assert won.count(True) == 1
            assert numbers(log)[expected] == won.index(True)
