"""`intermission verify | export | sessions | events`: look into a log on disk, without writing to it."""

import json
import sys
from pathlib import Path

from intermission.cli.terminal import Screen
from intermission.errors import SessionNotFoundError
from intermission.keys import SessionKey
from intermission.sessions.reading import stored_events
from intermission.sessions.records import SESSIONS
from intermission_storage import LmdbEventLog, export, verify

__all__ = ["export_log", "is_there", "list_sessions", "show_events", "verify_log"]


def is_there(path: str, screen: Screen) -> bool:
    """Return whether there is a log at a path, after a line that says so if there is none."""
    if Path(path).exists():
        return True
    screen.line("error", f"there is no log at {path}", "red")
    return False


def verify_log(path: str, screen: Screen) -> int:
    """Read all of the log; 0 if it is sound, else 1 after a line for each problem."""
    with LmdbEventLog(path, read_only=True) as log:
        report = verify(log)
    for problem in report.problems:
        screen.line("problem", problem, "red")
    verdict = _counted(len(report.problems), "problem") if report.problems else "sound"
    what = f"{_counted(report.streams, 'stream')}, {_counted(report.records, 'record')}"
    screen.line("log", f"{path}: {what}, {verdict}")
    return 1 if report.problems else 0


def export_log(path: str) -> int:
    """Write every record as a line of JSON."""
    with LmdbEventLog(path, read_only=True) as log:
        for line in export(log):
            print(line)
    return 0


def list_sessions(path: str, app: str | None) -> int:
    """Write a line of JSON for each session: its key, its last number, and who has it, if somebody does."""
    with LmdbEventLog(path, read_only=True) as log:
        for entry in log.index(SESSIONS, () if app is None else (app,)):
            head = log.head(entry.stream)
            line = dict(zip(("app", "user", "session"), entry.key, strict=True)) | {"last": head.position}
            if head.claim is not None:
                line |= {"claimed by": str(head.claim.owner), "alive": head.claim.alive}
            print(json.dumps(line))
    return 0


def show_events(path: str, app: str, user: str, session: str, after: int) -> int:
    """Write the stored events of a session as lines of JSON, in the form of ADK's clients."""
    with LmdbEventLog(path, read_only=True) as log:
        try:
            events = stored_events(log, SessionKey(app, user, session), after=after)
        except SessionNotFoundError as error:
            print(error, file=sys.stderr)
            return 1
        for event in events:
            print(event.to_json())
    return 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
