import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import scale
from intermission import Cancelled, CancelScope, blocking
from races import at_once
from waiting import ENDLESS, Attempt, until_still

ROUNDS = scale.rounds(50, 500)

Connect = Callable[..., sqlite3.Connection]


@pytest.fixture
def scope() -> CancelScope:
    return CancelScope.child_of(None)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    made: list[sqlite3.Connection] = []

    def connect(**options: Any) -> sqlite3.Connection:
        made.append(sqlite3.connect(tmp_path / "data.db", check_same_thread=False, **options))
        made[-1].execute("PRAGMA synchronous = off")
        return made[-1]

    first = connect()
    first.execute("CREATE TABLE t (x)")
    first.commit()
    yield connect
    for connection in made:
        connection.close()


def no_row(_cursor: sqlite3.Cursor, _row: object) -> None:
    """Make none of what is fetched."""


def rows(connection: sqlite3.Connection) -> list[Any]:
    with closing(connection.execute("SELECT x FROM t ORDER BY x")) as cursor:
        return [row[0] for row in cursor]


@pytest.mark.parametrize("scoped", [True, False])
def test_a_block_is_a_transaction(scoped: bool, connect: Connect, scope: CancelScope) -> None:
    connection, other = connect(), connect()
    given = scope if scoped else None
    with blocking.sqlite(connection, scope=given) as transaction:
        assert transaction.connection is connection
        transaction.execute("INSERT INTO t VALUES (?)", (1,))
        assert rows(other) == []
    assert rows(other) == [1]
    with pytest.raises(KeyError), blocking.sqlite(connection, scope=given) as transaction:
        fail_after_insert(transaction)
    assert rows(other) == [1]


def fail_after_insert(transaction: Any) -> None:
    transaction.execute("INSERT INTO t VALUES (2)")
    raise KeyError


def test_a_cancel_interrupts_a_statement_and_rolls_the_transaction_back(
    connect: Connect, scope: CancelScope
) -> None:
    connection = connect()

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")
            transaction.execute(ENDLESS)

    attempt = Attempt(work)
    until_running(connection)
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    assert isinstance(attempt.outcome, Cancelled)
    assert not connection.in_transaction
    assert rows(connection) == []
    connection.execute("INSERT INTO t VALUES (2)")
    connection.commit()
    assert rows(connection) == [2]


def until_running(connection: sqlite3.Connection) -> None:
    never = threading.Event()
    while not connection.in_transaction:
        never.wait(0.001)
    never.wait(0.01)


@pytest.mark.parametrize("raw", [True, False])
def test_a_statement_that_begins_just_as_the_cancel_comes_is_interrupted(
    raw: bool, connect: Connect, scope: CancelScope
) -> None:
    connection = connect()

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            connection.create_function("cancel", 0, scope.cancel)
            if raw:
                scope.cancel()  # between statements there is nothing to interrupt
                connection.execute(ENDLESS)
            else:
                transaction.execute("SELECT cancel()").fetchall()
                transaction.execute(ENDLESS)

    assert isinstance(Attempt(work).ended(), Cancelled)


def test_a_cancel_ends_the_fetching_of_rows(connect: Connect, scope: CancelScope) -> None:
    connection = connect()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            for number, _ in enumerate(transaction.execute(numbers)):
                if number == 1000:
                    scope.cancel()

    assert isinstance(Attempt(work).ended(), Cancelled)


def test_a_wait_for_anothers_lock_lasts_until_it_is_free(connect: Connect, scope: CancelScope) -> None:
    connection, other = connect(), connect()
    other.execute("BEGIN IMMEDIATE")

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")

    attempt = Attempt(work)
    until_still(attempt.thread)
    other.commit()
    assert attempt.ended() is None
    assert rows(other) == [1]


def test_a_wait_for_anothers_lock_lasts_no_longer_than_the_connection_says(
    connect: Connect, scope: CancelScope
) -> None:
    connection, other = connect(timeout=0.05), connect()
    connection.row_factory = no_row
    other.execute("BEGIN EXCLUSIVE")

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")

    began = time.monotonic()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        work()
    assert time.monotonic() - began >= 0.05
    connection.row_factory = None
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (50,)


def test_a_cancel_ends_a_commit_that_waits_for_a_reader(connect: Connect, scope: CancelScope) -> None:
    connection, reader = connect(timeout=1000), connect()
    reader.execute("BEGIN")
    rows(reader)

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")

    attempt = Attempt(work)
    until_running(connection)
    until_still(attempt.thread)
    scope.cancel()
    assert isinstance(attempt.ended(), Cancelled)
    reader.commit()
    assert rows(reader) == []
    assert not connection.in_transaction


def test_a_snapshot_that_is_too_old_is_told_at_once(connect: Connect, scope: CancelScope) -> None:
    connection, other = connect(timeout=1000), connect()
    connection.execute("PRAGMA journal_mode = wal")
    with (
        pytest.raises(sqlite3.OperationalError) as raised,
        blocking.sqlite(connection, scope=scope) as transaction,
    ):
        write_on_an_old_snapshot(transaction, other)
    assert raised.value.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"


class GivesUp(sqlite3.Connection):
    """Gives up a transaction with a statement, as SQLite may when its cache is full and others hold locks."""

    tries = 0

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if statement != "give up":
            return super().execute(statement, *parameters)
        self.tries += 1
        self.rollback()
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error


def test_a_statement_is_not_tried_again_without_what_went_before_it(
    connect: Connect, scope: CancelScope
) -> None:
    connection = connect(factory=GivesUp)

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")
            transaction.execute("give up")

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        work()
    assert isinstance(connection, GivesUp)
    assert connection.tries == 1


def write_on_an_old_snapshot(transaction: Any, other: sqlite3.Connection) -> None:
    transaction.execute("BEGIN")
    transaction.execute("SELECT * FROM t").fetchall()
    other.execute("INSERT INTO t VALUES (1)")
    other.commit()
    transaction.execute("INSERT INTO t VALUES (2)")


def test_a_commit_that_meets_the_cancel_is_whole_or_undone_as_the_block_says(connect: Connect) -> None:
    connection, other = connect(), connect()
    for number in range(ROUNDS):
        scope = CancelScope.child_of(None)

        def work(scope: CancelScope = scope, number: int = number) -> None:
            with blocking.sqlite(connection, scope=scope) as transaction:
                for part in range(5):
                    transaction.execute("INSERT INTO t VALUES (?)", (10 * number + part,))

        attempt = Attempt(work)
        at_once(scope.cancel, lambda: None)
        outcome = attempt.ended()
        stored = [row for row in rows(other) if row >= 10 * number]
        if isinstance(outcome, Cancelled):
            assert stored == []
        else:
            assert (outcome, len(stored)) == (None, 5)
        assert not connection.in_transaction


def test_after_the_block_no_cancel_interrupts_the_connection(connect: Connect) -> None:
    connection = connect()
    count = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT count(*) FROM n"
    )
    for _ in range(ROUNDS):
        scope = CancelScope.child_of(None)

        def work(scope: CancelScope = scope) -> None:
            try:
                with blocking.sqlite(connection, scope=scope) as transaction:
                    transaction.execute("SELECT 1").fetchall()
            except Cancelled:
                pass
            assert connection.execute(count).fetchone() == (2000,)

        at_once(work, scope.cancel)


def test_where_each_statement_commits_itself_what_was_done_stays(
    connect: Connect, scope: CancelScope
) -> None:
    connection = connect(isolation_level=None)

    def work() -> None:
        with blocking.sqlite(connection, scope=scope) as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")
            transaction.execute("BEGIN")
            transaction.execute("INSERT INTO t VALUES (2)")
            scope.cancel()
            transaction.execute("INSERT INTO t VALUES (3)")

    assert isinstance(Attempt(work).ended(), Cancelled)
    assert rows(connection) == [1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute autocommit came with Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
def test_the_newer_ways_of_transactions_hold_the_same(
    autocommit: bool, connect: Connect, scope: CancelScope
) -> None:
    connection: Any = connect()  # typeshed knows the attribute from Python 3.12 on
    other = connect()
    connection.autocommit = autocommit
    with blocking.sqlite(connection, scope=scope) as transaction:
        if autocommit:
            transaction.execute("BEGIN")
        transaction.execute("INSERT INTO t VALUES (1)")
        assert rows(other) == []
    assert rows(other) == [1]
    with suppress(KeyError), blocking.sqlite(connection, scope=scope) as transaction:
        if autocommit:
            transaction.execute("BEGIN")
        fail_after_insert(transaction)
    assert rows(other) == [1]
