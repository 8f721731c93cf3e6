"""`sqlite`: a transaction on an SQLite connection that a cancel interrupts and rolls back."""

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from intermission.blocking.aborting import Aborter
from intermission.blocking.parking import pause, scope_for
from intermission.kernel.scope import CancelScope

__all__ = ["Transaction", "sqlite"]

T = TypeVar("T")

_AGAIN = 0.005  # seconds; an interrupt ends the statements that run, and not one that is about to begin

# Seconds between tries while another connection holds the lock, the last for all later ones: as SQLite's own.
_PAUSES = (0.001, 0.002, 0.005, 0.010, 0.015, 0.020, 0.025, 0.025, 0.025, 0.050, 0.050, 0.100)

# Where SQLite itself would wait. With a snapshot that is too old, for one, waiting helps nobody.
_WORTH_WAITING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY}


class Transaction:
    """What the block of `sqlite` works with. It waits for the locks of others, and a cancel ends the wait.

    Attributes:
        connection: The connection. Its own methods do not wait for locks as long as the block lasts.
    """

    __slots__ = ("_patience", "_scope", "connection")

    def __init__(self, connection: sqlite3.Connection, scope: CancelScope, patience: float) -> None:
        self.connection = connection
        self._scope = scope
        self._patience = patience

    def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement, as `connection.execute`.

        Raises:
            Cancelled: The scope is cancelled. Let it pass, and the transaction is rolled back.
            sqlite3.OperationalError: Others have held a lock for too long, or the statement failed.
        """
        return self._patiently(lambda: self.connection.execute(statement, parameters))

    def _patiently(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience
        begun = self.connection.in_transaction
        tries = 0
        while True:
            self._scope.check()
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                left = deadline - time.monotonic()
                # A transaction that SQLite has given up with the statement cannot go on with the statement.
                lost = begun and not self.connection.in_transaction
                if error.sqlite_errorcode not in _WORTH_WAITING or left <= 0 or lost:
                    raise
            pause(self._scope, min(left, _PAUSES[min(tries, len(_PAUSES) - 1)]))
            tries += 1

    def _commit(self) -> None:
        self._patiently(lambda: _end(self.connection, "COMMIT"))


@contextmanager
def sqlite(connection: sqlite3.Connection, *, scope: CancelScope | None = None) -> Generator[Transaction]:
    """Make the block a transaction, as `with connection:`, that ends at once when the scope is cancelled.

    Statements that run are interrupted, and waits for another connection's lock end. Leaving the block
    commits, and then the transaction stands, though a cancel may come at that moment. If this raises, the
    transaction was rolled back. In autocommit mode each statement commits itself, and stays.

    Args:
        connection: An open connection; its owner closes it, and may use it again at once.
        scope: The scope that ends the block; None: the current one, if there is one.

    Raises:
        Cancelled: The scope is cancelled.
        RuntimeError: This thread runs an event loop, which would freeze.
    """
    scope = scope_for("sqlite", scope) or CancelScope.child_of(None)
    # SQLite's own wait for a lock cannot be interrupted, so it does not wait, and we do.
    patience = _ask(connection, "PRAGMA busy_timeout")
    connection.execute("PRAGMA busy_timeout = 0")
    transaction = Transaction(connection, scope, patience / 1000)
    try:
        yield from _interruptible(transaction, scope)
        transaction._commit()  # pyright: ignore[reportPrivateUsage]  # of this module, and not for the block
    except BaseException:
        _end(connection, "ROLLBACK")
        raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def _interruptible(transaction: Transaction, scope: CancelScope) -> Generator[Transaction]:
    aborter = Aborter(scope, lambda: _interrupt(transaction.connection), _AGAIN)
    try:
        yield transaction
    except Exception:
        if aborter.leave():
            scope.check()
        raise
    finally:
        aborter.leave()


def _interrupt(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # it has been closed
        connection.interrupt()


def _ask(connection: sqlite3.Connection, question: str) -> int:
    cursor = connection.cursor()
    cursor.row_factory = None  # whatever rows look like elsewhere
    return int(cursor.execute(question).fetchone()[0])


def _end(connection: sqlite3.Connection, word: str) -> None:
    if getattr(connection, "autocommit", False) is True:
        # From Python 3.12 on there is a mode whose `commit` does nothing, though somebody executed a BEGIN.
        if connection.in_transaction:
            connection.execute(word)
    elif word == "COMMIT":
        connection.commit()
    else:
        connection.rollback()
