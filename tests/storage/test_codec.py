"""What is written comes back equal, or is refused with the path to what would not."""

import re
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from intermission_storage import EncodingError, Kind, LogCorruptError, LogVersionError, Record
from intermission_storage.codec import (
    VERSION,
    decode_segment,
    decode_value,
    encode_record,
    encode_segment,
    encode_value,
)

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

# What each kind is in the bytes, for ever.
CODES = {
    "session_created": 1,
    "run_started": 2,
    "event": 3,
    "call_started": 4,
    "call_finished": 5,
    "cancel_requested": 6,
    "run_ended": 7,
    "run_end_delivered": 8,
    "compaction": 9,
    "state_set": 10,
    "answer": 11,
}


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


def sealed(body: bytes, *, version: int = VERSION) -> bytes:
    """Return bytes with the version and the checksum that belong to them."""
    return bytes([version]) + zlib.crc32(body).to_bytes(4, "big") + body


def segment(*records: Record) -> bytes:
    return encode_segment([encode_record(record) for record in records])


@given(st.lists(st.tuples(st.sampled_from(Kind), DATA), min_size=1, max_size=20), st.integers(20, 2**40))
def test_records_come_back_equal_of_the_same_types_and_numbered(
    written: list[tuple[Kind, dict[str, Any]]], last: int
) -> None:
    found = decode_segment(segment(*(Record(kind, data) for kind, data in written)), last)
    numbered = enumerate(written, last - len(written) + 1)
    assert exactly(found) == exactly([Record(kind, data, seq) for seq, (kind, data) in numbered])


@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
def test_a_segment_holds_any_number_of_records(count: int) -> None:
    found = decode_segment(segment(*(Record(Kind.EVENT, {"n": n}) for n in range(count))), count)
    assert [(record.seq, record.data["n"]) for record in found] == [(n + 1, n) for n in range(count)]


@given(DATA)
def test_a_value_of_an_index_entry_comes_back_equal_and_of_the_same_type(value: dict[str, Any]) -> None:
    assert exactly(decode_value(encode_value(value))) == exactly(value)


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_is_stored_as_the_number_that_it_has_for_ever(kind: Kind) -> None:
    assert segment(Record(kind, {"x": 1})) == sealed(bytes([0x91, 0x92, CODES[kind], 0x81, 0xA1, 0x78, 0x01]))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"x": (1, 2)}, "data.x"),
        ({"x": {1, 2}}, "data.x"),
        ({"x": object()}, "data.x"),
        ({"x": Text("x")}, "data.x"),
        ({"x": Kind.EVENT}, "data.x"),
        ({"x": bytearray(b"x")}, "data.x"),
        ({"x": memoryview(b"x")}, "data.x"),
        ({"x": msgpack.ExtType(5, b"x")}, "data.x"),
        ({"x": 2**64}, "data.x"),
        ({"x": -(2**63) - 1}, "data.x"),
        ({"x": float("nan")}, "data.x"),
        ({"x": "\ud800"}, "data.x"),
        ({"x": {"\ud800": 1}}, "a key of data.x"),
        ({1: "x"}, "data"),
        ({"x": {None: 1}}, "data.x"),
        ({"x": {b"x": 1}}, "data.x"),
        ({"x": {Text("x"): 1}}, "data.x"),
        ({"response": {"items": [0, 1, {"price": 1j}]}}, "data.response.items[2].price"),
        ([1], "data"),
        ("text", "data"),
        (None, "data"),
    ],
    ids=lambda value: re.sub(" at 0x.*?>", ">", str(value)),  # a name that is the same in each process
)
def test_a_value_that_would_not_come_back_equal_is_refused_with_its_path(data: Any, path: str) -> None:
    encoders: list[Callable[[], bytes]] = [
        lambda: encode_record(Record(Kind.EVENT, data)),
        lambda: encode_value(data),
    ]
    for encode in encoders:
        with pytest.raises(EncodingError) as refusal:
            encode()
        assert refusal.value.path == path
        assert str(refusal.value).startswith(f"{path} ")
        assert isinstance(refusal.value, TypeError)


@pytest.mark.parametrize("kind", [None, 1, "unknown", "\ud800"])
def test_a_kind_that_is_none_is_refused(kind: Any) -> None:
    with pytest.raises(EncodingError) as refusal:
        encode_record(Record(kind, {}))
    assert refusal.value.path == "kind"


def test_values_nested_too_deep_are_refused_and_all_others_come_back() -> None:
    for levels in range(450, 520):
        try:
            raw = segment(Record(Kind.EVENT, nested(levels)))
        except EncodingError as refusal:
            assert "is nested deeper than" in str(refusal)  # noqa: PT017  # either outcome is right
            assert levels > 500
        else:
            assert decode_segment(raw, 1)[0].data == nested(levels)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodingError, match="nested deeper"):
        encode_record(Record(Kind.EVENT, {"x": endless}))


def test_what_was_refused_before_changes_nothing_of_the_next_record() -> None:
    with pytest.raises(EncodingError):
        encode_record(Record(Kind.EVENT, {"a": "x" * 1000, "b": object()}))
    assert segment(Record(Kind.EVENT, {})) == sealed(b"\x91\x92\x03\x80")


def test_bytes_of_a_newer_version_are_refused() -> None:
    with pytest.raises(LogVersionError, match=f"record 7 has format version {VERSION + 1}"):
        decode_segment(sealed(b"anything", version=VERSION + 1), 7)
    with pytest.raises(LogVersionError):
        decode_value(sealed(b"anything", version=VERSION + 1))


@given(st.data())
def test_one_changed_byte_is_always_noticed(data: st.DataObject) -> None:
    raw = bytearray(segment(Record(Kind.EVENT, {"text": "hello", "n": [1, 2, 3]})))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises((LogCorruptError, LogVersionError)):
        decode_segment(bytes(raw), 1)


@given(st.binary())
@example(b"")
@example(b"\xc1")
@example(b"\x90")
@example(b"\x91\x92\x03\x05")
@example(b"\x91\x92\x63\x80")
@example(b"\x91\x91\x03")
@example(b"\x91\x93\x03\x80\x01")
@example(b"\x91\x92\xa5event\x80")
@example(b"\x91\x92\x90\x80")
@example(b"\x81\x03\x80")
@example(b"\x05")
def test_bytes_that_are_no_segment_are_refused_although_their_checksum_is_right(body: bytes) -> None:
    try:
        records = decode_segment(sealed(body), 1000)
    except LogCorruptError as error:
        assert re.search(r"record -?\d+", str(error))  # noqa: PT017  # either outcome is right
    else:
        assert records
        assert all(type(record.kind) is Kind and type(record.data) is dict for record in records)


@pytest.mark.parametrize("raw", [b"", bytes([VERSION]), bytes([VERSION, 0, 0, 0, 0])])
def test_no_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(LogCorruptError):
        decode_segment(raw, 1)
    with pytest.raises(LogCorruptError):
        decode_value(raw)
