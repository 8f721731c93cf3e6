"""`SharedState`: what belongs to an app or to a user, whatever the session. It has streams of its own.

An event keeps its whole delta; what of it is shared stands a second time, in the same commit, in the app's or
the user's stream. Deleting a session so takes nothing away from the others, and no session is read for it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from intermission.keys import SessionKey
from intermission.sessions.records import state_set
from intermission.state import APP, USER, Operation, apply_change
from intermission_storage import EventLog, Kind, Record

__all__ = ["SharedState", "shared_records"]

# To look a member of an enumeration up is slow.
_EVENT, _STATE_SET, _SESSION_CREATED = Kind.EVENT, Kind.STATE_SET, Kind.SESSION_CREATED

_MAX_STREAMS = 10_000  # that are remembered; the one that was not asked for longest goes first


def shared_records(key: SessionKey, records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return what a session's records change beyond it, as records for the streams that it is kept in."""
    also: dict[str, list[Record]] = {}
    for record in records:
        delta, operations = _change(record)
        if not (delta or operations):
            continue
        for scope, stream in ((APP, key.app_stream), (USER, key.user_stream)):
            part = {name: value for name, value in delta.items() if name.startswith(scope)}
            rest = [one for one in operations if one["key"].startswith(scope)]
            if part or rest:
                also.setdefault(stream, []).append(state_set(part, record.data["timestamp"], rest))
    return also


class SharedState:
    """The shared states of an app and its users, as they are in the log.

    What is remembered of a stream is brought up to date when it is next looked at after `changed`, on the
    thread that looks. Any thread may call.

    Args:
        log: Where they are kept.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._streams: OrderedDict[str, _Shared] = OrderedDict()

    def changed(self, streams: Iterable[str]) -> None:
        """There may be more in these streams than is known."""
        for stream in streams:
            self._of(stream).stale = True

    def of(self, stream: str) -> Mapping[str, Any]:
        """Return the state that a stream comes to; it does not change any more.

        Raises:
            StorageError: The log cannot be read.
        """
        return self._of(stream).read(self._log.read)

    def _of(self, stream: str) -> "_Shared":
        with self._lock:
            found = self._streams.get(stream)
            if found is None:
                found = self._streams[stream] = _Shared(stream)
                if len(self._streams) > _MAX_STREAMS:
                    self._streams.popitem(last=False)
            else:
                self._streams.move_to_end(stream)
            return found


class _Shared:
    """What is known of one stream."""

    __slots__ = ("_lock", "_position", "_state", "_stream", "stale")

    def __init__(self, stream: str) -> None:
        self.stale = True
        self._stream = stream
        self._lock = threading.Lock()
        self._position = 0
        self._state: dict[str, Any] = {}

    def read(self, read: Callable[..., list[Record]]) -> Mapping[str, Any]:
        if self.stale:
            with self._lock:
                self.stale = False  # before it is read: a change that comes meanwhile is read again
                try:
                    records = read(self._stream, after=self._position)
                except BaseException:
                    self.stale = True
                    raise
                if records:
                    state = dict(self._state)
                    for record in records:
                        delta, operations = _change(record)
                        apply_change(state, delta, tuple(map(Operation.from_dict, operations)))
                    self._position, self._state = records[-1].seq, state
        return self._state


def _change(record: Record) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    data = record.data
    if record.kind == _EVENT:
        actions = data["actions"]
        return actions.get("stateDelta") or {}, actions.get("stateOperations") or ()
    if record.kind == _STATE_SET:
        return data["delta"], data.get("operations") or ()
    if record.kind == _SESSION_CREATED:
        return data.get("state") or {}, ()
    return {}, ()
