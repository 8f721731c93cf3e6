"""The look at the pages of a data file: it refuses no sound one, and finds what LMDB would trip over."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest
from lmdb import verify as lmdb_verify

import scale
from commits import Outcomes, hold
from intermission_storage import IndexEntry, Kind, LmdbEventLog, LogCorruptError, Record, lmdb_pages
from intermission_storage.lmdb_pages import data_problems

PAGE = 4096
HEAD = 16  # bytes of a page before the places of its nodes
PADDING = {8, 9}  # of those, the bytes that mean nothing
SIZES = [[0, 1, 30], [0, 900, 2000, 2040], [100, 3000, 5000, 20_000], [8, 12, 4080, 4081, 100_000]]
pytestmark = pytest.mark.scenario("E7")


def verify(data: Path) -> list[str]:
    """Return what LMDB's own look at a file finds."""
    look: Callable[[str], list[str]] = vars(lmdb_verify)["verify"]  # it has no annotations
    try:
        return look(str(data))
    except lmdb_verify.VerifyError as error:
        return [str(error)]


def event(size: int = 0) -> Record:
    return Record(Kind.EVENT, {"text": "x" * size})


def work(environment: lmdb.Environment, chance: random.Random) -> Iterator[None]:
    """Put, replace and delete at random in three databases; yield after each transaction."""
    databases = [environment.open_db(name) for name in (b"a", b"bb", b"ccc")]
    keys: list[list[bytes]] = [[] for _ in databases]
    sizes, longest = chance.choice(SIZES), chance.choice([20, 511])
    readers: list[lmdb.Transaction] = []
    for _ in range(chance.choice([3, 20, 60])):
        if chance.random() < 0.1:  # they keep pages from being used anew, so that lists of free ones grow
            readers.append(environment.begin())
        elif readers and chance.random() < 0.2:
            readers.pop(chance.randrange(len(readers))).abort()
        with environment.begin(write=True) as transaction:
            for _ in range(chance.choice([1, 5, 50, 400])):
                place = chance.randrange(len(databases))
                known, database, what = keys[place], databases[place], chance.random()
                if what < 0.55 or not known:
                    known.append(
                        chance.choice([chance.randbytes(chance.randint(1, longest)), b"%08d" % len(known)])
                    )
                    transaction.put(known[-1], bytes(chance.choice(sizes)), db=database)
                elif what < 0.7:
                    transaction.put(chance.choice(known), bytes(chance.choice(sizes)), db=database)
                elif what < 0.99:
                    transaction.delete(known.pop(chance.randrange(len(known))), db=database)
                else:
                    cursor = transaction.cursor(database)
                    more = cursor.set_range(chance.randbytes(1))
                    for _ in range(chance.choice([10, 1000])):
                        more = more and cursor.delete()
        yield
    for reader in readers:
        reader.abort()


def test_no_file_that_lmdb_has_written_is_refused(tmp_path: Path) -> None:
    looks = 0
    for seed in range(scale.rounds(12, 400)):
        chance = random.Random(seed)
        directory = tmp_path / str(seed)
        with lmdb.open(str(directory), map_size=1 << 30, max_dbs=8, sync=False) as environment:
            for _ in work(environment, chance):
                if chance.random() < 0.3:
                    assert data_problems(directory / "data.mdb") == [], f"seed {seed}"
                    looks += 1
            (tmp_path / f"{seed} copied").mkdir()
            environment.copy(str(tmp_path / f"{seed} copied"), compact=True)
        for name in ("", " copied"):
            assert data_problems(tmp_path / f"{seed}{name}" / "data.mdb") == [], f"seed {seed}{name}"
    assert looks > scale.rounds(12, 400)


def test_no_log_that_was_written_to_at_random_is_refused(tmp_path: Path) -> None:
    for seed in range(scale.rounds(5, 100)):
        chance = random.Random(seed)
        path = tmp_path / str(seed)
        with LmdbEventLog(path, sync=False, map_size=1 << 16) as log:
            for _ in range(chance.choice([20, 100])):
                outcomes = Outcomes()
                gate = hold(log)
                for batch in range(chance.choice([1, 10])):  # these are one commit
                    entry = IndexEntry(
                        "i", (str(chance.randrange(9)),), {"text": "x" * chance.choice([0, 20_000])}
                    )
                    records = [event(chance.choice([0, 300, 5000]))] * chance.choice([1, 3])
                    log.submit(f"s{chance.randrange(9)}", records, outcomes.of(batch), put=[entry])
                gate.open()
                if chance.random() < 0.3:
                    log.delete(f"s{chance.randrange(9)}")
                assert outcomes.errors() == {}
            assert log.check_structure() == [], f"seed {seed}"
        assert data_problems(path / "data.mdb") == [], f"seed {seed}"


def test_a_log_in_which_one_commit_has_replaced_a_long_value_by_a_short_one_is_opened(tmp_path: Path) -> None:
    # The value keeps the pages that it had, which LMDB's own look takes for damage.
    outcomes = Outcomes()
    with LmdbEventLog(tmp_path / "log") as log:
        gate = hold(log)
        for size in (20_000, 200):
            log.submit("s", [event()], outcomes.of(size), put=[IndexEntry("i", ("k",), {"size": "x" * size})])
        gate.open()
    assert verify(tmp_path / "log/data.mdb") != []
    (tmp_path / "log/clean").unlink()
    with LmdbEventLog(tmp_path / "log") as log:
        assert [entry.value for entry in log.index("i")] == [{"size": "x" * 200}]
        assert log.check_structure() == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data file of a log with pages of each kind."""
    with LmdbEventLog(tmp_path / "log") as log:
        for number in range(60):
            entry = IndexEntry("i", (f"key {number}",), {"number": number, "text": "x" * 500})
            log.append(f"stream {number % 7}", [event((20, 300, 6000)[number % 3])] * 2, put=[entry])
        log.delete("stream 3")
    return tmp_path / "log/data.mdb"


def pages_in_use(data: Path) -> dict[int, int]:
    """Return the flags of the pages that are in use and have a head, by their places in the file."""
    sound = data.read_bytes()
    found: dict[int, int] = {}
    for place in range(2 * PAGE, len(sound), PAGE):
        data.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        if int.from_bytes(sound[place : place + 8], "little") * PAGE == place and data_problems(data):
            found[place] = int.from_bytes(sound[place + 10 : place + 12], "little")
    data.write_bytes(sound)
    assert set(found.values()) == {1, 2, 4}, "there are not branches, leaves and others"
    return found


def test_any_bit_that_changes_in_the_head_of_a_page_in_use_is_noticed(data: Path) -> None:
    sound = data.read_bytes()
    bits = [
        (page + place, bit)
        for page in pages_in_use(data)
        for place in range(HEAD)
        for bit in range(8)
        if place not in PADDING
    ]
    for place, bit in bits[:: scale.rounds(7, 1)]:
        damaged = bytearray(sound)
        damaged[place] ^= 1 << bit
        data.write_bytes(damaged)
        assert data_problems(data), f"bit {bit} of byte {place % PAGE} of page {place // PAGE}"


@pytest.mark.parametrize("by", [-34, -2, 2, 34])
def test_a_page_that_says_wrongly_where_its_nodes_begin_is_refused(data: Path, by: int) -> None:
    # LMDB would end the process when it writes: its own look sees only whether the place is in the page.
    sound = data.read_bytes()
    for page, flags in pages_in_use(data).items():
        if flags == 2:
            damaged = bytearray(sound)
            upper = int.from_bytes(sound[page + 14 : page + 16], "little") + by
            damaged[page + 14 : page + 16] = upper.to_bytes(2, "little")
            data.write_bytes(damaged)
            (data.parent / "clean").unlink(missing_ok=True)
            with pytest.raises(LogCorruptError, match=f"page {page // PAGE} of .* {upper}"):
                LmdbEventLog(data.parent)


def test_a_key_that_belongs_on_another_page_is_noticed(data: Path) -> None:
    sound = data.read_bytes()
    branches = [page for page, flags in pages_in_use(data).items() if flags == 1]
    for page in branches:
        places = int.from_bytes(sound[page + 12 : page + 14], "little")
        for entry in range(page + HEAD + 2, page + places, 2):  # not the first, whose key says nothing
            damaged = bytearray(sound)
            damaged[page + int.from_bytes(sound[entry : entry + 2], "little") + 8] ^= 0x80
            data.write_bytes(damaged)
            assert data_problems(data)


def test_whatever_lmdbs_own_look_finds_is_found(data: Path) -> None:
    sound = data.read_bytes()
    found = 0
    for seed in range(scale.rounds(150, 5000)):
        chance = random.Random(seed)
        damaged = bytearray(sound)
        for _ in range(chance.choice([1, 1, 3])):
            page = chance.randrange(len(sound) // PAGE) * PAGE
            damaged[page + chance.randrange(chance.choice([HEAD, 160, PAGE]))] = chance.randrange(256)
        data.write_bytes(damaged)
        if theirs := verify(data):
            assert data_problems(data), f"seed {seed}: {theirs}"
            found += 1
    assert found > scale.rounds(20, 1000)


def test_a_large_file_is_read_page_by_page_and_judged_as_a_small_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = data.read_bytes()
    damage = [b""] + [bytes(HEAD)] * 20
    for number, head in enumerate(damage):
        page = len(sound) // PAGE * number // len(damage) * PAGE
        data.write_bytes(sound[:page] + head + sound[page + len(head) :])
        with monkeypatch.context() as patch:
            small = data_problems(data)
            patch.setattr(lmdb_pages, "_IN_ONE_PIECE", 0)
            assert data_problems(data) == small
    for pages in (0, 1, 2, 10):
        data.write_bytes(sound[: pages * PAGE])
        assert data_problems(data)
