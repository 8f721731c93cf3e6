"""What goes into a log comes out again equal, or is refused before it goes in: names and values."""

import dataclasses
import enum
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from commits import Outcomes
from intermission_storage import EncodingError, IndexEntry, Kind, LmdbEventLog, Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[LmdbEventLog]:
    with LmdbEventLog(path) as log:
        yield log


def event(value: object = None) -> Record:
    return Record(Kind.EVENT, {"value": value})


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int = dataclasses.field(init=False, default=0)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


COMES_BACK: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**64 - 1,
    0.1,
    float("inf"),
    -0.0,
    "",
    "a\0é\U0001f600\u2028",
    b"\x00\xff",
    [],
    {},
    [[1, "1", 1.0, True, None, b"1"], {"": [{}]}],
    "x" * 3_000_000,
    nested(400),
]
DOES_NOT: list[tuple[object, str]] = [
    (Colour.RED, "data.value"),
    ([{"colour": Colour.RED}], "data.value[0].colour"),
    (Level.LOW, "data.value"),
    (Kind.EVENT, "data.value"),
    (Point(1), "data.value"),
    ({"a": defaultdict(int, b=1)}, "data.value.a"),
    (datetime(2026, 1, 1, tzinfo=UTC), "data.value"),
    (Decimal("0.1"), "data.value"),
    ({1, 2}, "data.value"),
    (frozenset[int](), "data.value"),
    ((1, 2), "data.value"),
    ({(1, 2): 3}, "data.value"),
    ({1: 2}, "data.value"),
    ([float("nan")], "data.value[0]"),
    ({"a": ["\ud800"]}, "data.value.a[0]"),
    ({"\udfff": 1}, "a key of data.value"),
    (2**80, "data.value"),
    (-(2**63) - 1, "data.value"),
    (object(), "data.value"),
    (1j, "data.value"),
]


NAMES = [
    "x" * 2000,
    "👩‍👩‍👧 é e\u0301",
    "a\0b",
    "a",
    "..",
    ".",
    "",
    "/",
    "\ud800",
    "x" * 511 + "a",
    "x" * 511 + "b",
]


@pytest.mark.scenario("E5")
def test_a_stream_may_have_any_name_and_stays_distinct(path: Path) -> None:
    with LmdbEventLog(path) as log:
        for name in NAMES:
            log.append(
                name, [event(name.encode("utf-8", "surrogatepass"))], put=[IndexEntry("i", (name, ""))]
            )
    with LmdbEventLog(path) as log:
        assert sorted(log.streams()) == sorted(NAMES)
        for name in NAMES:
            assert [record.data["value"] for record in log.read(name)] == [
                name.encode("utf-8", "surrogatepass")
            ]
            assert [(entry.key, entry.stream) for entry in log.index("i", (name,))] == [((name, ""), name)]
            assert log.delete(name)
        assert log.streams() == []
        assert log.index("i") == []


@pytest.mark.scenario("E11")
def test_a_plain_value_is_equal_and_of_its_type_when_the_log_is_opened_again(path: Path) -> None:
    with LmdbEventLog(path) as log:
        for number, value in enumerate(COMES_BACK):
            log.append("s", [event(value)], put=[IndexEntry("i", (str(number),), {"value": value})])
    with LmdbEventLog(path) as log:
        assert list(map(repr, (record.data["value"] for record in log.read("s")))) == list(
            map(repr, COMES_BACK)
        )
        for number, value in enumerate(COMES_BACK):
            (entry,) = log.index("i", (str(number),))
            assert repr(entry.value["value"]) == repr(value)


@pytest.mark.scenario("E11")
@pytest.mark.parametrize(
    ("value", "where"), DOES_NOT, ids=[type(value).__name__ + where for value, where in DOES_NOT]
)
def test_any_other_value_is_refused_when_it_is_submitted_with_its_path(
    log: LmdbEventLog, value: object, where: str
) -> None:
    outcomes = Outcomes()
    with pytest.raises(EncodingError) as refusal:
        log.submit("s", [event(1), event(value)], outcomes.of("s"))
    assert refusal.value.path == where
    assert isinstance(refusal.value, TypeError)
    with pytest.raises(EncodingError) as refusal:
        log.submit("s", [event(1)], outcomes.of("s"), put=[IndexEntry("i", ("k",), {"value": value})])
    assert refusal.value.path.endswith(where.rpartition("data")[2])
    log.append("t", [event()])
    assert outcomes.all == {}
    assert log.streams() == ["t"]
    assert log.index("i") == []


@pytest.mark.scenario("E11")
@pytest.mark.parametrize("value", [nested(2000), nested(100_000), cycle()], ids=["deep", "deeper", "cycle"])
def test_a_value_that_is_nested_too_deep_or_holds_itself_is_refused(log: LmdbEventLog, value: object) -> None:
    with pytest.raises(EncodingError, match="is nested deeper than 500 levels, or holds itself") as refusal:
        log.submit("s", [event(value)], lambda _: None)
    assert refusal.value.path.startswith("data.value")
    assert log.streams() == []


@pytest.mark.scenario("E11")
def test_the_deepest_value_that_is_taken_is_read_again(log: LmdbEventLog) -> None:
    taken = 0
    for levels in range(400, 1100):
        value = nested(levels)
        try:
            log.submit(
                f"s{levels}", [event(value)], lambda _: None, put=[IndexEntry("i", ("k",), {"v": value})]
            )
        except EncodingError:
            break
        taken = levels
    assert taken >= 480
    log.append("last", [event()])
    assert [record.data["value"] for record in log.read(f"s{taken}")] == [nested(taken)]
    assert [entry.value for entry in log.index("i")] == [{"v": nested(taken)}]
