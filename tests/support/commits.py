"""Commits of an event log as a test wants them: held, and with their outcomes kept."""

from collections.abc import Callable

from intermission.testing import Gate
from intermission_storage import Appended, EventLog, Kind, Record, StorageError

__all__ = ["Outcomes", "hold"]


class Outcomes:
    """Keeps what became of many batches, in the order in which it was reported."""

    def __init__(self) -> None:
        self.all: dict[object, Appended | StorageError] = {}

    def of(self, name: object) -> Callable[[Appended | StorageError], None]:
        """Return the `done` of one batch, under a name."""

        def done(outcome: Appended | StorageError) -> None:
            assert name not in self.all
            self.all[name] = outcome

        return done

    def errors(self) -> dict[object, str]:
        """Return the names of the classes of what was refused."""
        return {
            name: type(outcome).__name__
            for name, outcome in self.all.items()
            if isinstance(outcome, StorageError)
        }


def hold(log: EventLog) -> Gate:
    """Stop the thread that commits, so that what is submitted before the gate is opened waits together.

    It stands in the `done` of a record in the stream "gate".
    """
    gate = Gate()
    log.submit("gate", [Record(Kind.EVENT, {})], lambda _: gate.wait())
    gate.arrived()
    return gate
