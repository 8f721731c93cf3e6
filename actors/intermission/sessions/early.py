"""`EarlyMessages`: what was said to a run that is not there yet, and the way by which it comes."""

import threading
import weakref
from collections import OrderedDict

from intermission.keys import SessionKey
from intermission.messages import PoisonPill, Stop
from intermission.runs.lifecycle import Lifecycle, Port
from intermission.runs.result import CancelSource

__all__ = ["EarlyMessages"]

_MAX_EARLY = 10_000  # messages that are remembered; the oldest goes first
_MAX_SEEN = 10_000  # runs of which it is known that they were here


class EarlyMessages:
    """Hands runs to their sessions, and to each what was said to it by its id before.

    A message for a run that has been here, and has ended, is for nobody: it cannot hit the next run.

    Args:
        port: The way to the sessions.
    """

    def __init__(self, port: Port) -> None:
        self._port = port
        self._lock = threading.RLock()
        self._early: OrderedDict[tuple[SessionKey, str], list[Stop | PoisonPill]] = OrderedDict()
        self._seen: OrderedDict[str, weakref.ref[Lifecycle]] = OrderedDict()  # no two runs share an id

    def deliver(self, run: Lifecycle) -> None:
        """Hand the run to its session."""
        if run.invocation_id is None:  # its session finds out which one it goes on with
            self._port.deliver(run)
            return
        name = (run.key, run.invocation_id)
        with self._lock:
            self._seen[name[1]] = weakref.ref(run)
            if len(self._seen) > _MAX_SEEN:
                self._seen.popitem(last=False)
            messages = self._early.pop(name, [])
        for message in messages:
            _tell(run, message)
        if run.result is None:
            self._port.deliver(run)

    def cancel(self, run: Lifecycle) -> None:
        """Tell the session to look at the run's slot."""
        self._port.cancel(run)

    def say(self, key: SessionKey, invocation_id: str, message: Stop | PoisonPill) -> None:
        """Tell the run of that id now, or when it comes."""
        name = (key, invocation_id)
        with self._lock:
            seen = self._seen.get(invocation_id)
            if seen is None:
                self._early.setdefault(name, []).append(message)
                if len(self._early) > _MAX_EARLY:
                    self._early.popitem(last=False)
                return
        run = seen()
        if run is not None and run.key == key:
            _tell(run, message)


def _tell(run: Lifecycle, message: Stop | PoisonPill) -> None:
    if isinstance(message, Stop):
        run.request_stop(message.reason)
    else:
        run.cancel(CancelSource.ADMIN, message.reason)
