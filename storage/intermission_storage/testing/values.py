"""What comes back equal, what is refused, and where the refusal says it stands."""

from typing import Any

import pytest

from intermission_storage.errors import EncodingError
from intermission_storage.log import Done, EventLog
from intermission_storage.record import IndexEntry, Kind, Record
from intermission_storage.testing.harness import Base, entry, event, events, numbers, rest

__all__ = ["Values"]

_VALUES: list[object] = [
    *(None, True, False, 0, 1, -1, 2**63 - 1, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.1, 1.0, 1e308, 5e-324, float("inf"), float("-inf")),
    *("", "é𝄞\0", "x" * 70_000, b"", b"\0\xff", b"x" * 70_000),
    *([], {}, [[]], [None, True, 1, 1.0, "", b""], {"": {"a": [{}]}, "\0": 1}, list(range(70_000))),
]


class _Text(str):
    __slots__ = ()


_REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"x": (1, 2)}, "data.x"),
    ({"x": {1, 2}}, "data.x"),
    ({"x": object()}, "data.x"),
    ({"x": _Text("x")}, "data.x"),
    ({"x": 2**64}, "data.x"),
    ({"x": -(2**63) - 1}, "data.x"),
    ({"x": float("nan")}, "data.x"),
    ({"x": "\ud800"}, "data.x"),
    ({"x": {"\ud800": 1}}, "a key of data.x"),
    ({1: "x"}, "data"),
    ({"x": {None: 1}}, "data.x"),
    ({"response": {"items": [0, 1, {"price": 1j}]}}, "data.response.items[2].price"),
]


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


def _exactly(value: object) -> str:
    """Return a form that tells 1 from True and 1.0, and 0.0 from -0.0, which `==` does not."""
    return repr(value)


class Values(Base):
    """See the module."""

    def test_values_of_every_type_come_back_equal_and_of_the_same_type(self, log: EventLog) -> None:
        log.append("s", events(*_VALUES))
        assert _exactly(numbers(log)) == _exactly(_VALUES)

    def test_a_dict_keeps_the_order_of_its_keys(self, log: EventLog) -> None:
        log.append("s", [event({"b": 1, "a": 2, "c": 3})])
        assert list(log.read("s")[0].data["number"]) == ["b", "a", "c"]

    def test_values_may_be_nested_hundred_levels_deep(self, log: EventLog) -> None:
        log.append("s", [Record(Kind.EVENT, _nested(100))])
        assert log.read("s")[0].data == _nested(100)

    @pytest.mark.parametrize(("data", "path"), _REFUSED, ids=lambda it: it if isinstance(it, str) else "")
    def test_a_value_that_would_not_come_back_equal_is_refused_with_its_path(
        self, log: EventLog, data: dict[str, Any], path: str
    ) -> None:
        log.append("s", events(1))
        with pytest.raises(EncodingError) as refusal:
            log.append("s", [event(2), Record(Kind.EVENT, data)])
        assert refusal.value.path == path
        assert isinstance(refusal.value, TypeError)
        assert numbers(log) == [1]

    def test_a_value_that_holds_itself_is_refused(self, log: EventLog) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(EncodingError):
            log.append("s", [event(endless)])

    @pytest.mark.parametrize("data", [None, "text", [1], 5])
    def test_data_that_are_no_mapping_are_refused(self, log: EventLog, data: Any) -> None:
        with pytest.raises(EncodingError):
            log.append("s", [Record(Kind.EVENT, data)])
        assert log.streams() == []

    def test_a_kind_that_is_none_of_ours_is_refused(self, log: EventLog) -> None:
        unknown: Any = "unknown"
        with pytest.raises(EncodingError) as refusal:
            log.append("s", [Record(unknown, {})])
        assert refusal.value.path == "kind"

    def test_the_value_of_an_index_entry_comes_back_equal(self, log: EventLog) -> None:
        for number, value in enumerate(_VALUES):
            log.append("s", events(number), put=[entry("a", value=value)])
            assert _exactly(log.index("i")[0].value) == _exactly({"value": value})

    def test_an_index_entry_that_would_not_come_back_equal_is_refused(self, log: EventLog) -> None:
        with pytest.raises(EncodingError):
            log.append("s", events(1), put=[entry("a"), IndexEntry("i", ("b",), {"x": {1}})])
        assert log.streams() == []
        assert rest(log) == []

    def test_what_cannot_be_stored_is_refused_by_the_call_and_not_by_done(self, log: EventLog) -> None:
        outcomes: list[object] = []
        done: Done = outcomes.append
        with pytest.raises(EncodingError):
            log.submit("s", [event({1})], done)
        with pytest.raises(EncodingError):
            log.submit("s", [event(1)], done, put=[entry("a", value={1})])
        assert outcomes == []
        assert log.streams() == []
