"""`Sessions`: an app's sessions in one log: making, finding, reading, changing and deleting them."""

import builtins
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from intermission.content import plain_copy
from intermission.errors import SessionBusyError, SessionExistsError, SessionNotFoundError
from intermission.events import Event
from intermission.kernel.loop_warnings import warn_of_blocking
from intermission.keys import SessionKey
from intermission.runs.current import place_of, waiter
from intermission.runs.waiting import in_worker
from intermission.sessions.directory import Directory
from intermission.sessions.host import Host
from intermission.sessions.messages import Delete, SetState
from intermission.sessions.reading import stored_events
from intermission.sessions.records import SESSIONS, session_created, session_entry
from intermission.sessions.reply import Reply
from intermission.sessions.run_records import RunRecord, runs_in_log
from intermission.sessions.shared_state import shared_records
from intermission.sessions.view import SessionView
from intermission.state import TEMP, Scopes
from intermission_storage import ClaimedError, ConflictError, IndexEntry

__all__ = ["SessionEntry", "SessionInfo", "Sessions"]

_PAGE = 500
_MAX_ATTEMPTS = 100  # at a session that others append to all the time

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """That there is a session.

    Attributes:
        app: The app's name.
        user_id: The session's user.
        session_id: The session.
        created: When it was created, in seconds since the epoch.
    """

    app: str
    user_id: str
    session_id: str
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo(SessionEntry):
    """What a session is now.

    Attributes:
        state: Its state, with the keys of the app (`app:`) and of the user (`user:`).
        last_seq: The number of its last record.
        updated: When that was made, in seconds since the epoch.
    """

    state: Mapping[str, Any]
    last_seq: int
    updated: float


class Sessions:
    """The sessions of one app in one log. `Runner.sessions` is one.

    Each call has a twin for event loops, whose blocking work is done by the runner's workers: `acreate`,
    `aget`, `aexists`, `alist`, `adelete`, `aevents`, `aruns`, `aset_state`. All of them raise a
    `StorageError` when the log cannot be read or written, and a `ValueError` or `TypeError` for ids that
    cannot be any. When the runner is closed, a log that it was handed can still be read; nothing is changed
    any more.

    Args:
        host: The runner.
        directory: Its active sessions.
    """

    def __init__(self, host: Host, directory: Directory) -> None:
        self._app = host.app.name
        self._log = host.log
        self._host = host
        self._directory = directory

    def create(
        self, *, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> SessionInfo:
        """Create a session.

        Args:
            user_id: Its user.
            session_id: Its id; without, it gets one that no other session has.
            state: What it begins with; `app:` and `user:` keys change the state of the app and the user.

        Raises:
            SessionExistsError: There is a session of that id; it was not changed.
            SessionClosedError: The runner is closed.
            ValueError: A key of the state begins with `temp:`.
        """
        warn_of_blocking("Sessions.create", "acreate")
        key = SessionKey(self._app, user_id, uuid.uuid4().hex if session_id is None else session_id)
        given = _storable(state or {})
        with self._directory.kept_open():
            now = self._host.services.clock.time()
            record = session_created(
                key, now, {name: value for name, value in given.items() if value is not None}
            )
            entry = session_entry(key, now, record.data["id"])
            also = shared_records(key, [record])
            try:
                self._log.append(key.stream, [record], expected=0, put=[entry], also=also)
            except (ConflictError, ClaimedError) as error:
                raise SessionExistsError(key.app, key.user_id, key.session_id) from error
            return self._get(key)

    def get(self, *, user_id: str, session_id: str) -> SessionInfo:
        """Return what a session is now.

        Raises:
            SessionNotFoundError: The log holds no such session.
        """
        warn_of_blocking("Sessions.get", "aget (ainfo, astate)")
        return self._get(SessionKey(self._app, user_id, session_id))

    def list(self, *, user_id: str | None = None) -> builtins.list[SessionEntry]:
        """Return which sessions there are, of one user or of all, read from an index.

        Args:
            user_id: Only this user's.
        """
        warn_of_blocking("Sessions.list", "alist")
        prefix = (self._app,) if user_id is None else (self._app, user_id)
        found: builtins.list[IndexEntry] = []
        while page := self._log.index(SESSIONS, prefix, after=found[-1] if found else None, limit=_PAGE):
            found += page
        entries = [
            SessionEntry(
                app=entry.key[0],
                user_id=entry.key[1],
                session_id=entry.key[2],
                created=entry.value.get("created", 0.0),
            )
            for entry in found
        ]
        return sorted(entries, key=lambda entry: (entry.created, entry.user_id, entry.session_id))

    def delete(self, *, user_id: str, session_id: str, take_over: bool = False) -> bool:
        """Delete a session, and return whether there was one. What belongs to the app or the user stays.

        The run that is under way ends `cancelled`, source `admin`; those that wait, or come before the
        session is gone, end with `SessionClosedError`. Afterwards the id is free.

        Args:
            user_id: The session's user.
            session_id: The session.
            take_over: Whether to delete it also under a run that another process has under way.

        Raises:
            SessionBusyError: Another process or runner has a run of it under way. Nothing was deleted.
            SessionClosedError: The runner is closed, or somebody else is deleting the session.
            ReentrantRunError: The caller is a call of the run that would have to end first.
        """
        warn_of_blocking("Sessions.delete", "adelete")
        key = SessionKey(self._app, user_id, session_id)
        with self._waiting(key):
            return self._delete(key, take_over)

    def events(
        self, *, user_id: str, session_id: str, after: int = 0, limit: int | None = None
    ) -> builtins.list[Event]:
        """Return the stored events of a session, oldest first, as they are in the log now.

        Args:
            user_id: The session's user.
            session_id: The session.
            after: Only events with a higher `seq`.
            limit: At most so many events; `None` for all.

        Raises:
            ValueError: `after` or `limit` is negative.
            SessionNotFoundError: The log holds no such session.
        """
        warn_of_blocking("Sessions.events", "aevents")
        key = SessionKey(self._app, user_id, session_id)
        return stored_events(self._log, key, after=after, limit=limit)

    def runs(self, *, user_id: str, session_id: str) -> builtins.list[RunRecord]:
        """Return the runs of a session, oldest first, the one under way among them.

        Raises:
            SessionNotFoundError: The log holds no such session.
        """
        warn_of_blocking("Sessions.runs", "aruns")
        return runs_in_log(self._log, self._existing(user_id, session_id))

    def set_state(self, *, user_id: str, session_id: str, delta: Mapping[str, Any]) -> None:
        """Change a session's state from outside of its runs; a run under way sees the change.

        Args:
            user_id: The session's user.
            session_id: The session.
            delta: Keys with their new values; `None` removes a key. `app:` and `user:` keys change the state
                of the app and of the user.

        Raises:
            SessionNotFoundError: The log holds no such session.
            SessionBusyError: Another process or runner has a run of it under way. Nothing was changed.
            SessionClosedError: The runner is closed, or the session is being deleted.
            ValueError: A key begins with `temp:`; that would belong to a run.
        """
        warn_of_blocking("Sessions.set_state", "aset_state")
        given = _storable(delta)
        for _ in range(_MAX_ATTEMPTS):
            key = SessionKey(self._app, user_id, session_id)
            with self._directory.kept_open():
                position = self._log.head(key.stream).position
            if not position:
                raise SessionNotFoundError(self._app, user_id, session_id)
            answer: Reply[None] = Reply()
            try:
                answer.of(self._directory.ask(key, SetState(given, answer.give, position)))
            except ConflictError:
                continue  # somebody else has appended, or deleted it, since its position was read
            return
        raise SessionBusyError(self._log.owner)

    # The same, without blocking an event loop.

    async def acreate(
        self, *, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> SessionInfo:
        """As `create`, without blocking the event loop."""
        return await self._work(lambda: self.create(user_id=user_id, session_id=session_id, state=state))

    async def aget(self, *, user_id: str, session_id: str) -> SessionInfo:
        """As `get`, without blocking the event loop."""
        return await self._work(lambda: self.get(user_id=user_id, session_id=session_id))

    async def alist(self, *, user_id: str | None = None) -> builtins.list[SessionEntry]:
        """As `list`, without blocking the event loop."""
        return await self._work(lambda: self.list(user_id=user_id))

    async def adelete(self, *, user_id: str, session_id: str, take_over: bool = False) -> bool:
        """As `delete`, without blocking the event loop."""
        key = SessionKey(self._app, user_id, session_id)
        with self._waiting(key):  # a worker is in nobody's call
            return await self._work(lambda: self._delete(key, take_over))

    async def aevents(
        self, *, user_id: str, session_id: str, after: int = 0, limit: int | None = None
    ) -> builtins.list[Event]:
        """As `events`, without blocking the event loop."""
        return await self._work(
            lambda: self.events(user_id=user_id, session_id=session_id, after=after, limit=limit)
        )

    async def aruns(self, *, user_id: str, session_id: str) -> builtins.list[RunRecord]:
        """As `runs`, without blocking the event loop."""
        return await self._work(lambda: self.runs(user_id=user_id, session_id=session_id))

    async def aset_state(self, *, user_id: str, session_id: str, delta: Mapping[str, Any]) -> None:
        """As `set_state`, without blocking the event loop."""
        await self._work(lambda: self.set_state(user_id=user_id, session_id=session_id, delta=delta))

    def exists(self, *, user_id: str, session_id: str) -> bool:
        """Return whether the log holds the session."""
        warn_of_blocking("Sessions.exists", "aexists")
        return self._log.head(SessionKey(self._app, user_id, session_id).stream).position > 0

    async def aexists(self, *, user_id: str, session_id: str) -> bool:
        """As `exists`, without blocking the event loop."""
        return await self._work(lambda: self.exists(user_id=user_id, session_id=session_id))

    def _delete(self, key: SessionKey, take_over: bool) -> bool:
        answer: Reply[bool] = Reply()
        return answer.of(self._directory.ask(key, Delete(take_over, answer.give)))

    def _waiting(self, key: SessionKey) -> AbstractContextManager[None]:
        """Have the session in whose call this stands, if it does, wait for another one."""
        outer = waiter()
        services = self._host.services
        return nullcontext() if outer is None else services.waits.waiting(place_of(outer, services), key)

    def _existing(self, user_id: str, session_id: str) -> SessionKey:
        key = SessionKey(self._app, user_id, session_id)
        if not self._log.head(key.stream).position:
            raise SessionNotFoundError(self._app, user_id, session_id)
        return key

    def _get(self, key: SessionKey) -> SessionInfo:
        view = SessionView.load(self._log, key.stream)
        if not view.position:
            raise SessionNotFoundError(key.app, key.user_id, key.session_id)
        shared = self._host.shared
        shared.changed((key.user_stream, key.app_stream))
        state = Scopes(view.state, shared.of(key.user_stream), shared.of(key.app_stream))
        return SessionInfo(
            app=key.app,
            user_id=key.user_id,
            session_id=key.session_id,
            created=view.created,
            state=plain_copy(dict(state)),
            last_seq=view.position,
            updated=view.updated,
        )

    async def _work(self, function: Callable[[], T]) -> T:
        return await in_worker(self._host.services, function)


def _storable(delta: Mapping[str, Any]) -> dict[str, Any]:
    for name in delta:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise TypeError(f"a key of the state must be a str, not {type(name).__name__}")
        if name.startswith(TEMP):
            raise ValueError(f"state key {name!r} belongs to one run: give it as the run's state_delta")
    return dict(delta)
