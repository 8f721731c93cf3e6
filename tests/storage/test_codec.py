"""What is written comes back equal, or is refused with the path to what would not."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intermission_storage import EncodingError, LogCorruptError, LogVersionError, Record
from intermission_storage.codec import VERSION, decode, encode

PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
    ),
    lambda values: st.lists(values, max_size=5) | st.dictionaries(st.text(), values, max_size=5),
    max_leaves=20,
)
DATA = st.dictionaries(st.text(), PLAIN, max_size=5)


class Text(str):
    __slots__ = ()


def nested(levels: int) -> dict[str, Any]:
    value: list[Any] = []
    for _ in range(levels - 2):
        value = [value]
    return {"x": value}


def exactly(value: object) -> str:
    """Return a form that tells 1 from True and 1.0, which `==` does not."""
    return repr(value)


@given(st.text(), DATA, st.integers(1, 2**40))
def test_values_come_back_equal_and_of_the_same_type(kind: str, data: dict[str, Any], seq: int) -> None:
    record = decode(encode(Record(kind, data)), seq)
    assert exactly(record) == exactly(Record(kind, data, seq))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"x": (1, 2)}, "data.x"),
        ({"x": {1, 2}}, "data.x"),
        ({"x": object()}, "data.x"),
        ({"x": Text("x")}, "data.x"),
        ({"x": bytearray(b"x")}, "data.x"),
        ({"x": 2**64}, "data.x"),
        ({"x": -(2**63) - 1}, "data.x"),
        ({"x": "\ud800"}, "data.x"),
        ({"x": {"\ud800": 1}}, "a key of data.x"),
        ({1: "x"}, "data"),
        ({"x": {None: 1}}, "data.x"),
        ({"response": {"items": [0, 1, {"price": 1j}]}}, "data.response.items[2].price"),
    ],
)
def test_a_value_that_would_not_come_back_equal_is_refused_with_its_path(
    data: dict[str, Any], path: str
) -> None:
    with pytest.raises(EncodingError) as refusal:
        encode(Record("event", data))
    assert refusal.value.path == path
    assert str(refusal.value).startswith(f"{path} ")
    assert isinstance(refusal.value, TypeError)


@pytest.mark.parametrize("kind", [None, 1, Text("event"), "\ud800"])
def test_a_kind_that_is_no_text_is_refused(kind: Any) -> None:
    with pytest.raises(EncodingError) as refusal:
        encode(Record(kind, {}))
    assert refusal.value.path == "kind"


def test_values_nested_too_deep_are_refused() -> None:
    assert decode(encode(Record("event", nested(64))), 1).data == nested(64)
    with pytest.raises(EncodingError, match="nested deeper than 64 levels"):
        encode(Record("event", nested(66)))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodingError, match="nested deeper"):
        encode(Record("event", {"x": endless}))


def test_a_record_of_a_newer_version_is_refused() -> None:
    with pytest.raises(LogVersionError, match=f"record 7 has format version {VERSION + 1}"):
        decode(bytes([VERSION + 1]) + encode(Record("event", {}))[1:], 7)


@given(st.binary())
def test_damaged_bytes_are_a_record_or_refused(raw: bytes) -> None:
    try:
        record = decode(bytes([VERSION]) + raw, 1)
    except LogCorruptError as error:
        assert "record 1 cannot be decoded" in str(error)  # noqa: PT017  # either outcome is right
    else:
        assert (type(record.kind), type(record.data)) == (str, dict)


@pytest.mark.parametrize(
    "found", [{"kind": 1, "data": 2}, ["event", 5], [b"event", {}], ["event"], ["event", {}, 1], "ab", 1]
)
def test_other_values_than_a_kind_and_data_are_refused(found: object) -> None:
    raw: Any = msgpack.packb(found)
    with pytest.raises(LogCorruptError, match="record 3 cannot be decoded"):
        decode(bytes([VERSION]) + raw, 3)


@pytest.mark.parametrize("raw", [b"", bytes([VERSION])])
def test_no_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(LogCorruptError):
        decode(raw, 1)
