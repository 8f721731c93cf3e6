"""Index entries: put, replaced and dropped with a commit, read by the first texts of their keys."""

from typing import Any

import pytest

from intermission_storage.errors import ConflictError
from intermission_storage.log import EventLog
from intermission_storage.record import IndexEntry
from intermission_storage.testing.harness import Base, entry, events, numbers, rest

__all__ = ["Indexes"]

_TEXTS = ["", "\0", "a\0", "é", "\ud800", "x" * 511 + "a", "x" * 511 + "b", "y" * 10_000]


class Indexes(Base):
    """See the module."""

    def test_an_index_entry_comes_back_with_its_stream(self, log: EventLog) -> None:
        log.append("s", events(1), put=[IndexEntry("i", ("a", "b"), {"x": 1}, stream="ignored")])
        assert log.index("i") == [IndexEntry("i", ("a", "b"), {"x": 1}, "s")]

    def test_an_unknown_index_is_empty(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("a")])
        assert log.index("unknown") == []
        assert log.index("") == []

    def test_an_entry_may_come_without_a_record(self, log: EventLog) -> None:
        log.append("s", events(1))
        assert log.append("s", [], put=[entry("a", value=1)]).position == 1
        assert rest(log) == [(("a",), 1, "s")]
        assert log.append("s", [], drop=[entry("a")]).position == 1
        assert rest(log) == []

    def test_an_entry_of_a_stream_without_records_knows_its_stream(self, log: EventLog) -> None:
        assert log.append("s", [], put=[entry("a", value=1)]).position == 0
        assert rest(log) == [(("a",), 1, "s")]
        assert log.streams() == []

    def test_an_entry_is_replaced_by_one_with_its_key(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("a", value=1), entry("b", value=1)])
        log.append("s", events(2), put=[entry("a", value=2)])
        assert rest(log) == [(("a",), 2, "s"), (("b",), 1, "s")]

    def test_an_entry_that_another_stream_replaces_is_that_streams(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("a", value=1)])
        log.append("t", events(1), put=[entry("a", value=2)])
        assert rest(log) == [(("a",), 2, "t")]
        log.append("s", events(2), drop=[entry("a")])
        log.delete("s")
        assert rest(log) == [(("a",), 2, "t")]
        log.delete("t")
        assert rest(log) == []

    def test_an_entry_is_dropped_by_its_key_whatever_its_value(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("a", value=1), entry("b", value=1)])
        log.append("s", events(2), drop=[entry("a", value="other"), entry("unknown")])
        assert rest(log) == [(("b",), 1, "s")]

    def test_a_batch_that_needs_an_entry_is_committed_only_with_that_value_of_its_own_stream(
        self, log: EventLog
    ) -> None:
        log.append("s", events(1), put=[entry("a", value=1)])
        log.append("t", events(1), put=[entry("b", value=1)])
        assert log.append("s", events(2), expected=1, needs=[entry("a", value=1)]).position == 2
        for wrong in (entry("a", value=2), entry("b", value=1), entry("c"), entry("a", value=1, index="j")):
            with pytest.raises(ConflictError) as refused:
                log.append("s", events(3), needs=[entry("a", value=1), wrong], put=[entry("d")])
            assert (refused.value.stream, refused.value.actual) == ("s", 2)
            assert refused.value.lacking == (wrong.index, wrong.key)
        with pytest.raises(ConflictError):
            log.append("new", events(1), claim=True, needs=[entry("a", value=1)])
        assert numbers(log) == [1, 2]
        assert sorted(log.streams()) == ["s", "t"]
        assert len(rest(log)) == 2

    def test_a_batch_that_needs_an_entry_of_a_stream_that_was_made_anew_is_refused(
        self, log: EventLog, sibling: EventLog
    ) -> None:
        log.append("s", events(1, 2), put=[entry("a", value="first")])
        sibling.delete("s")
        sibling.append("s", events(3, 4), put=[entry("a", value="second")])
        with pytest.raises(ConflictError):
            log.append("s", events(5), expected=2, claim=True, needs=[entry("a", value="first")])
        assert numbers(log) == [3, 4]
        assert log.head("s").claim is None

    def test_an_entry_is_in_its_own_index_only(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("a", index="i"), entry("a", index="j")])
        log.append("s", events(2), drop=[entry("a", index="i")])
        assert rest(log, "i") == []
        assert rest(log, "j") == [(("a",), None, "s")]

    def test_an_index_is_read_by_the_first_texts_of_its_keys(self, log: EventLog) -> None:
        keys = [("a",), ("a", "a"), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a"), ()]
        log.append("s", events(1), put=[entry(*key) for key in keys])
        for prefix in [(), ("a",), ("a", "b"), ("a", "b", "c"), ("b",), ("c",), ("a", ""), ("",)]:
            expected = sorted(key for key in keys if key[: len(prefix)] == prefix)
            assert sorted(found.key for found in log.index("i", prefix)) == expected
            assert sorted(found.key for found in log.index("i", iter(prefix))) == expected

    def test_entries_come_in_pages_of_one_order(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("p", str(number)) for number in range(10)])
        log.append("s", events(1), put=[entry("q"), entry("o"), entry("p", index="j")])
        whole = log.index("i", ["p"])
        assert len(whole) == 10
        assert log.index("i", ["p"]) == whole
        assert log.index("i", ["p"], limit=0) == []
        pages: list[IndexEntry] = []
        while page := log.index("i", ["p"], after=pages[-1] if pages else None, limit=3):
            pages += page
        assert pages == whole

    def test_the_next_page_begins_behind_an_entry_that_is_gone(self, log: EventLog) -> None:
        log.append("s", events(1), put=[entry("p", str(number)) for number in range(5)])
        whole = log.index("i", ["p"])
        log.append("s", events(2), drop=[whole[1]])
        assert log.index("i", ["p"], after=whole[1]) == whole[2:]

    def test_a_page_of_an_index_with_a_negative_limit_is_an_error(self, log: EventLog) -> None:
        with pytest.raises(ValueError, match="-1"):
            log.index("i", limit=-1)

    def test_any_texts_are_a_key_and_any_text_is_the_name_of_an_index(self, log: EventLog) -> None:
        for number, name in enumerate(_TEXTS):
            entries = [entry(one, two, value=number, index=name) for one in _TEXTS for two in _TEXTS]
            log.append("s", events(1), put=entries)
        expected = sorted((one, two) for one in _TEXTS for two in _TEXTS)
        for number, name in enumerate(_TEXTS):
            found = log.index(name)
            assert sorted(one.key for one in found) == expected
            assert all(one.value == {"value": number} for one in found)
            assert {one.key for one in log.index(name, [name])} == {(name, two) for two in _TEXTS}

    def test_a_key_may_have_sixteen_texts(self, log: EventLog) -> None:
        key = [str(number) for number in range(16)]
        log.append("s", events(1), put=[entry(*key), entry(*key[:15])])
        assert [found.key for found in log.index("i", key)] == [tuple(key)]
        assert len(log.index("i", key[:15])) == 2
        log.delete("s")
        assert rest(log) == []

    def test_a_key_of_more_than_sixteen_texts_is_an_error(self, log: EventLog) -> None:
        key = [str(number) for number in range(17)]
        with pytest.raises(ValueError, match="more than 16 texts"):
            log.append("s", events(1), put=[entry(*key)])
        with pytest.raises(ValueError, match="more than 16 texts"):
            log.append("s", events(1), drop=[entry(*key)])
        with pytest.raises(ValueError, match="more than 16 texts"):
            log.append("s", events(1), needs=[entry(*key)])
        with pytest.raises(ValueError, match="more than 16 texts"):
            log.index("i", key)
        with pytest.raises(ValueError, match="more than 16 texts"):
            log.index("i", after=entry(*key))
        assert log.streams() == []

    @pytest.mark.parametrize("key", [("a", 1), ["a"], "a", None])
    def test_a_key_that_is_no_tuple_of_texts_is_an_error_and_nothing_is_written(
        self, log: EventLog, key: Any
    ) -> None:
        with pytest.raises(TypeError):
            log.append("s", events(1), put=[entry("a"), IndexEntry("i", key)])
        assert log.streams() == []
        assert rest(log) == []
