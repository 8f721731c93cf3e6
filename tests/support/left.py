"""Sessions that dead processes have left, and damage to what they have left."""

from pathlib import Path
from typing import Any

import lmdb

from apps import APP
from intermission import Runner, RunResult
from intermission.keys import SessionKey
from intermission_storage.lmdb_schema import digest

__all__ = ["damage", "left", "recovered", "status_of"]


def damage(path: Path, user_id: str, session_id: str) -> None:
    """Overwrite the last commit of a session in a log on disk that nobody has open."""
    stream = digest(SessionKey(APP, user_id, session_id).stream)
    with lmdb.open(str(path), max_dbs=16) as environment:
        segments = environment.open_db(b"segments", create=False)
        with environment.begin(write=True, db=segments) as transaction:
            cursor = transaction.cursor()
            found = [bytes(key) for key in cursor.iternext(values=False) if bytes(key).startswith(stream)]
            transaction.put(found[-1], b"\x01 this is no commit")


def left(runner: Runner, **options: Any) -> list[str]:
    """Return which sessions have a run that `recover` finds, in its order, and leave them as they are."""
    runs = runner.recover(**options)
    for run in runs:
        run.cancel()  # it is cold: nothing of it is stored
    return [run.session_id for run in runs]


def recovered(runner: Runner, **options: Any) -> list[RunResult]:
    """Go on with all that is left, one after another, and return what came of each."""
    return [run.result(60) for run in runner.recover(**options)]


def status_of(runner: Runner, user_id: str = "u", session_id: str = "s") -> list[str | None]:
    """Return how each run of a session ended."""
    return [run.status for run in runner.sessions.runs(user_id=user_id, session_id=session_id)]
