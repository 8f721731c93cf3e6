"""`Sessions`: what the log holds of an app's sessions, for reading."""

from intermission.errors import SessionNotFoundError
from intermission.events import Event
from intermission.keys import SessionKey
from intermission.sessions.directory import Directory
from intermission.sessions.records import event_of
from intermission_storage import EventLog, Kind
from intermission_storage.log import check_page

__all__ = ["Sessions"]


class Sessions:
    """The sessions of one app in one log. `Runner.sessions` is one."""

    def __init__(self, app: str, log: EventLog, directory: Directory | None = None) -> None:
        self._directory = directory
        self._app = app
        self._log = log

    def events(
        self, *, user_id: str, session_id: str, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        """Return the stored events of a session, oldest first, as they are in the log now.

        Args:
            user_id: The session's user.
            session_id: The session.
            after: Only events with a higher `seq`.
            limit: At most so many events; `None` for all.

        Raises:
            ValueError: `after` or `limit` is negative.
            SessionNotFoundError: The log holds no such session.
            StorageError: The log cannot be read.
        """
        check_page(after, limit)
        key = SessionKey(self._app, user_id, session_id)
        if not self._log.head(key.stream).position:
            raise SessionNotFoundError(self._app, user_id, session_id)
        records = self._log.read(key.stream, after=after)
        events = [event_of(record) for record in records if record.kind == Kind.EVENT]
        return events if limit is None else events[:limit]
