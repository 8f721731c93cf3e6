"""`Harness`: what the suite has to know of a store, and what its tests write."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from intermission_storage.log import EventLog
from intermission_storage.record import IndexEntry, Kind, Record

__all__ = ["Base", "Harness", "entry", "event", "events", "numbers", "rest"]


class Harness(ABC):
    """A storage of one test, empty at first, and the logs that are opened on it."""

    @abstractmethod
    def open(self) -> EventLog:
        """Open a log on the storage. All that are opened show the same streams; each is its own owner.

        What was committed is there although each log that was open before has been closed.
        """

    def claim_and_die(self, stream: str) -> int:
        """Append one record that claims `stream`, under an owner that is dead when this returns.

        Returns the claim's token. As it stands, the owner closes its log. A store whose owners may also die
        by the death of their process, or of their machine, does that here.
        """
        with self.open() as log:
            token = log.append(stream, [event(0)], claim=True).token
        assert token is not None
        return token


class Base:
    """What each class of the suite has: the harness, which its user defines, and one log in it."""

    @pytest.fixture
    def harness(self) -> Harness:
        """Return the harness of the store, new for each test."""
        raise NotImplementedError(
            "a class that inherits the contract defines the fixture `harness`, which returns a `Harness`"
        )

    @pytest.fixture
    def log(self, harness: Harness) -> Iterator[EventLog]:
        """A log on the storage, closed after the test."""
        with harness.open() as log:
            yield log

    @pytest.fixture
    def sibling(self, harness: Harness) -> Iterator[EventLog]:
        """Another log on the same storage, and so another owner."""
        with harness.open() as log:
            yield log


def event(number: object) -> Record:
    """Return a record that holds `number`."""
    return Record(Kind.EVENT, {"number": number})


def events(*numbers: object) -> list[Record]:
    """Return records that hold `numbers`."""
    return [event(number) for number in numbers]


def numbers(log: EventLog, stream: str = "s") -> list[object]:
    """Return what the records of a stream hold, and check how they are numbered."""
    records = log.read(stream)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return [record.data["number"] for record in records]


def entry(*key: str, value: object = None, index: str = "i") -> IndexEntry:
    """Return an index entry as it is put."""
    return IndexEntry(index, key, {"value": value})


def rest(log: EventLog, index: str = "i") -> list[tuple[tuple[str, ...], object, str]]:
    """Return the entries of an index: key, value and stream, in an order that no log decides."""
    return sorted((found.key, found.value["value"], found.stream) for found in log.index(index))
